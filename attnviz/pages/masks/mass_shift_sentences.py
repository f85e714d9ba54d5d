"""Sentences about the mass shift of a query: which attention B removes, and which keys gain it."""

from attnviz.analysis.difference import MassShift
from attnviz.base.formatting import number, significant, visible
from attnviz.base.language import _
from attnviz.page.html import Markup, element, join

MOST_KEYS = 5  # that a sentence names
LEAST_SHIFT = 1e-4  # of mass that is worth a word


def mass_shift_summary(shift: MassShift, query: str) -> Markup:
    """Returns the main sentence about the mass shift of one query."""
    values: dict[str, object] = {"query": element("b", visible(query))}
    text = _("Every weight of {query} is the same under A and under B.")
    if not (shift.keys_before and shift.keys_after):
        text = _("Under A or under B {query} may look at nothing.")
    elif shift.removed:
        text = _("Under B {query} no longer sees {keys}, to which A gave {mass} of its attention.")
        values |= {"keys": _key_count(shift.removed), "mass": element("b", number(shift.removed_mass))}
    elif shift.added:
        text = _("Under B {query} sees {keys} more, which get {mass} of its attention.")
        values |= {"keys": _key_count(shift.added), "mass": element("b", number(shift.added_mass))}
    elif shift.gained or shift.lost:
        text = _("Under B {mass} of the attention of {query} is on other keys.")
        values["mass"] = element("b", number(max(shift.gained_mass, shift.lost_mass)))
    return Markup(text).format(**values)


def mass_shift_sentences(shift: MassShift, query: str, keys: tuple[str, ...], mean: bool = False) -> list[Markup]:
    """Returns sentences about the mass shift of one query; `mean` if the weights are means of several heads."""
    token = element("b", visible(query))

    def mass(value: float) -> Markup:
        return element("b", number(value))

    sides = [side for side, count in (("A", shift.keys_before), ("B", shift.keys_after)) if count]
    if len(sides) < 2:
        sides_text = _("under {side}", side="B" if "A" in sides else "A") if sides else _("under A and B alike")
        sentence = Markup(_("{query} may look at nothing {sides}, so there is no attention to follow."))
        return [sentence.format(query=token, sides=sides_text)]
    parts = (
        (
            shift.removed,
            shift.removed_mass,
            _("Under B {query} no longer sees {keys}, to which A gave {mass} of its attention: {list}."),
        ),
        (shift.added, shift.added_mass, _("Under B {query} sees {keys} more, which get {mass}: {list}.")),
        (shift.gained, shift.gained_mass, _("{mass} went to {list}.")),
        (shift.lost, shift.lost_mass, _("{mass} came from {list}.")),
    )
    result = [
        Markup(sentence).format(query=token, keys=_key_count(some), mass=mass(value), list=_strongest(some, keys))
        for some, value, sentence in parts
        if some
    ]
    if shift.before - shift.after > LEAST_SHIFT:
        sentence = Markup(
            _("{mass} went nowhere, in heads where {query} may look at nothing: the row adds up to less.")
            if mean
            else _("{mass} went nowhere: the row adds up to less.")
        )
        result.append(sentence.format(mass=mass(shift.before - shift.after), query=token))
    if shift.removed and mean:
        result.append(
            Markup(_("These are means of several heads; each of them redistributes what is removed on its own."))
        )
    elif shift.factor is not None and shift.removed:
        left, factor = (significant(value, 3) for value in (shift.before / shift.factor, shift.factor))
        times = _("1 / {left} = {factor} times", left=left, factor=factor)
        result.append(
            Markup(
                _(
                    "Every key that stayed has {times} what it had, one divided by what was left: softmax "
                    "redistributes what is removed in proportion (checked on these numbers: the largest deviation is "
                    "{deviation})."
                )
            ).format(times=times, deviation=number(shift.deviation or 0))
            if shift.proportional
            else Markup(
                _(
                    "A softmax over the same scores would give every key that stayed {times} what it had. Here it "
                    "is another normalizer, or other scores: weights differ from that by up to {deviation}."
                )
            ).format(times=times, deviation=number(shift.deviation or 0))
        )
    nothing = Markup(_("Nothing changes for {query}: every weight is the same under A and B."))
    return result or [nothing.format(query=token)]


def _key_count(keys: tuple[tuple[int, float], ...]) -> str:
    return _("1 key") if len(keys) == 1 else _("{count} keys", count=len(keys))


def _strongest(masses: tuple[tuple[int, float], ...], keys: tuple[str, ...]) -> Markup:
    few = [
        Markup("{} ({})").format(element("bdi", element("b", visible(keys[key]))), number(mass))
        for key, mass in masses[:MOST_KEYS]
    ]
    if len(masses) <= MOST_KEYS:
        return join(few, ", ")
    return Markup(_("{keys} and {count} more")).format(keys=join(few, ", "), count=len(masses) - MOST_KEYS)
