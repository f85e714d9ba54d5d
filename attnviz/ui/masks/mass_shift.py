"""The mass shift of the pinned query: which attention B removes, and which keys gain it."""

import streamlit as st

from attnviz.analysis.difference import MassShift, mass_shift
from attnviz.analysis.head_maps import Aggregate
from attnviz.figures.bars import bars
from attnviz.formatting import number, significant, visible
from attnviz.language import _
from attnviz.ui.chart import chart
from attnviz.ui.html import Markup, element, join, paragraphs
from attnviz.ui.masks.comparison import Comparison

MOST_KEYS = 5  # that a sentence names
LEAST = 1e-4  # of mass that is worth a word


def show(comparison: Comparison, row: int | None) -> None:
    """Draws sentences about the pinned query, and its weights under A and under B."""
    if row is None:
        st.info(_("Pin a query above, or click its row in a map."))
        return
    before, after = (head_map.weights[row] for head_map in comparison.maps)
    query, keys = comparison.inputs.query_tokens[row], comparison.inputs.key_tokens
    if comparison.head == Aggregate.MAXIMUM:
        st.info(_("The greatest weights of several heads do not add up to 1. Choose one head to follow its mass."))
    else:
        mean = comparison.head == Aggregate.MEAN
        st.html(paragraphs(mass_shift_sentences(mass_shift(before, after), query, keys, mean)))
    chart(
        bars(before, after, keys),
        "went",
        label=_("The pinned query's weights under A and B"),
        name=_("where the mass went"),
        description=_("Two bars for each key: its weight under A, and under B."),
        height=300,
        grows=False,
    )


def mass_shift_sentences(shift: MassShift, query: str, keys: tuple[str, ...], mean: bool = False) -> list[Markup]:
    """Returns sentences about the mass shift of one query; `mean` if the weights are means of several heads."""
    token, mass = element("b", visible(query)), _bold_number
    sides = [side for side, count in (("A", shift.keys_before), ("B", shift.keys_after)) if count]
    if len(sides) < 2:
        sides_text = _("under {side}").format(side="B" if "A" in sides else "A") if sides else _("under A and B alike")
        return [
            join(
                [
                    token,
                    _(" may look at nothing {sides_text}, so there is no attention to follow.").format(
                        sides_text=sides_text
                    ),
                ]
            )
        ]
    result: list[Markup] = []
    if shift.removed:
        result.append(
            Markup(_("Under B {} no longer sees {}, to which A gave {} of its attention: {}.")).format(
                token, _key_count(shift.removed), mass(shift.removed_mass), _strongest(shift.removed, keys)
            )
        )
    if shift.added:
        result.append(
            Markup(_("Under B {} sees {} more, which get {}: {}.")).format(
                token, _key_count(shift.added), mass(shift.added_mass), _strongest(shift.added, keys)
            )
        )
    if shift.gained:
        result.append(Markup(_("{} went to {}.")).format(mass(shift.gained_mass), _strongest(shift.gained, keys)))
    if shift.lost:
        result.append(Markup(_("{} came from {}.")).format(mass(shift.lost_mass), _strongest(shift.lost, keys)))
    if shift.before - shift.after > LEAST:
        reason = _(" in heads where it may look at nothing") if mean else ""
        result.append(
            join(
                [
                    mass(shift.before - shift.after),
                    _(" went nowhere{reason}: the row adds up to less.").format(reason=reason),
                ]
            )
        )
    if shift.removed and mean:
        result.append(Markup(_("These are means of several heads; each of them shares out what is taken by itself.")))
    elif shift.factor is not None and shift.removed:
        left, factor = (significant(value, 3) for value in (shift.before / shift.factor, shift.factor))
        times = _("1 / {left} = {factor} times").format(left=left, factor=factor)
        result.append(
            Markup(
                _(
                    "Every key that stayed has {} what it had, one divided by what was left: softmax shares out what "
                    "is taken in proportion (checked on these numbers: the largest deviation is {:.0e})."
                )
            ).format(times, shift.deviation)
            if shift.proportional
            else Markup(
                _(
                    "A softmax over the same scores would give every key that stayed {} what it had. Here it is "
                    "another normalizer, or other scores: weights differ from that by up to {}."
                )
            ).format(times, number(shift.deviation or 0))
        )
    return result or [join([_("Nothing changes for "), token, _(": every weight is the same under A and B.")])]


def _bold_number(mass: float) -> Markup:
    return element("b", number(mass))


def _key_count(keys: tuple[tuple[int, float], ...]) -> str:
    return _("1 key") if len(keys) == 1 else _("{count} keys").format(count=len(keys))


def _strongest(masses: tuple[tuple[int, float], ...], keys: tuple[str, ...]) -> Markup:
    few = (
        Markup("{} ({})").format(element("bdi", element("b", visible(keys[key]))), number(mass))
        for key, mass in masses[:MOST_KEYS]
    )
    return join(few, ", ") + (
        _(" and {count} more").format(count=len(masses) - MOST_KEYS) if len(masses) > MOST_KEYS else ""
    )
