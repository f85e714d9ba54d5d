"""The form of one step: its question, the page that it opens, its check, and what its answer relies on."""

from dataclasses import dataclass
from typing import Any

import streamlit as st

from attnviz.base.language import N_, _, plural
from attnviz.base.link import page_address
from attnviz.lessons.checks import Condition, NumberCheck, Quantities, Tap, find_quantity, token_weights
from attnviz.lessons.lesson_files import CHECKS, MOST_FILE_BYTES, MOST_TAPS
from attnviz.lessons.lesson_tables import LessonTable, Place, parse_address
from attnviz.page.html import element
from attnviz.pages.catalogue import step_view
from attnviz.ui.markdown import plain
from attnviz.ui.server.addresses import address

NO_CHECK = "none"
KINDS = {
    NO_CHECK: N_("No check: the answer is revealed"),
    "choose": N_("Choose one of several texts"),
    "tap": N_("Tap the words with the largest weights"),
    "number": N_("Write a number that the page computes"),
    "reach": N_("Change the page until a condition holds"),
}
ADDRESS_HELP = N_("Set the page up as you want it, and copy the address from the browser.")
CONDITION_HELP = N_("A quantity, then <, > or =, then a number or another quantity.")
HOLDS_HELP = N_("What your answer says about this state, one condition per line; it is checked here.")
CONTROLS_HELP = N_("Their names in the address, one per line. All others are folded while the step is open.")


@dataclass
class Fields:
    """Widgets of the fields of a table. A field changes when its widget does, and stays as it is otherwise: a text may
    have as many characters as a file, since Streamlit would cut a longer one."""

    prefix: str  # of the widgets' keys
    table: LessonTable

    def text(self, name: str, label: str, widget: Any = st.text_input, otherwise: str = "", **options: Any) -> None:
        """Draws a text; the field is left out if it is `otherwise`, unless that is nothing."""
        shown = str(self.table.get(name, otherwise))
        typed = widget(label, shown, max_chars=MOST_FILE_BYTES, key=f"{self.prefix}-{name}", **options)
        if typed != shown:
            self.set(name, None if otherwise and typed in ("", otherwise) else typed)

    def lines(self, name: str, label: str, **options: Any) -> list[str]:
        """Draws a list of texts, one a line; returns those that are not empty."""
        shown = [str(one) for one in self.table.get(name, [])]  # type: ignore[attr-defined]
        typed = st.text_area(label, "\n".join(shown), 110, MOST_FILE_BYTES, key=f"{self.prefix}-{name}", **options)
        texts = [line.strip() for line in typed.splitlines() if line.strip()]
        if texts != shown:
            self.set(name, texts or None)
        return texts

    def set(self, name: str, value: object) -> None:
        """Sets a field where it stands, or leaves it out if the value is None."""
        self.table = {**self.table, name: value}
        if value is None:
            del self.table[name]


def edit_step(
    prefix: str, step: LessonTable, place: Place | None, opened: Place | None
) -> tuple[LessonTable, Place | None]:
    """Draws the form of a step; returns the step and its place as they stand in the form.

    `opened` is the place of the steps before, which a step without a place continues; None for the first step.
    """
    fields = Fields(prefix, step)
    fields.text("ask", _("Question"), st.text_area, height=84)
    fields.text("answer", _("Answer, which is shown when it is found or revealed"), st.text_area, height=84)
    place = _edit_place(prefix, place, opened)
    begins = place or opened
    view = step_view(*begins) if begins else None
    numbers = view.quantities if view else None
    _edit_check(fields, prefix, numbers)
    fields.lines("holds", _("The answer relies on"), help=_(HOLDS_HELP), placeholder="weight of animal = 0.68")
    fields.lines("controls", _("Controls that stay in view"), help=_(CONTROLS_HELP), placeholder="pinned")
    problems = mistakes(fields.table, numbers, stays=place is None)
    for mistake in problems:
        st.warning(plain(mistake), icon=":material/rule:")
    if numbers is not None and fields.table.get("holds") and place and not problems:
        st.caption(_("✓ All of this holds where the step opens."))
    return fields.table, place


def _edit_place(prefix: str, place: Place | None, opened: Place | None) -> Place | None:
    """Draws the widgets of the page that a step opens; returns the page and its state, or None if it stays."""
    if opened and st.checkbox(
        _("The page stays as the reader has left it"),
        place is None,
        key=f"{prefix}-stays",
        help=_("Without it, the step opens a page in a state of its own."),
    ):
        return None
    shown = place or opened
    assert shown
    written = page_address(*shown)
    typed = st.text_input(
        _("Address of the page"),
        written,
        MOST_FILE_BYTES,
        key=f"{prefix}-address",
        help=_(ADDRESS_HELP),
        placeholder="https://…/explore?layer=encoder+3&pinned=10+·+it",
    )
    if typed != written:
        try:
            shown = parse_address(typed)
        except ValueError as problem:
            st.error(plain(_("{problem} The step still opens {page}.", problem=problem, page=_(shown[0].capitalize()))))
    link = element(
        "a",
        _("Open {page} ↗", page=_(shown[0].capitalize())),
        href=address(f"/{page_address(*shown)}"),
        target="_blank",
    )
    st.html(
        element("p", f"{_(shown[0].capitalize())}, {_count(shown)}. ", link, class_="attnviz-note attnviz-place-link")
    )
    return shown


def _count(place: Place) -> str:
    count = len({name for name, _value in place[1]})
    own = plural("with {count} setting of its own", "with {count} settings of its own", count, count=count)
    return own if count else _("as it begins")


def _edit_check(fields: Fields, prefix: str, numbers: Quantities | None) -> None:
    """Draws the kind of the check and its own widgets."""
    kind = next((name for name in CHECKS if name in fields.table), NO_CHECK)
    chosen = st.selectbox(
        _("How the answer is checked"),
        list(KINDS),
        list(KINDS).index(kind),
        key=f"{prefix}-check",
        format_func=lambda name: _(KINDS[name]),
    )
    if chosen != kind:
        for name in (kind, "right"):
            if name in fields.table:
                fields.set(name, None)
        start = {
            "choose": [_("Yes"), _("No")],
            "tap": 1,
            "number": _first(numbers),
            "reach": f"{_first(numbers)} > 0.5",
        }
        if chosen in start:
            fields.set(chosen, start[chosen])
    match chosen:
        case "choose":
            _edit_choice(fields, prefix)
        case "tap":
            shown = int(fields.table["tap"])  # type: ignore[call-overload]
            count = st.number_input(
                _("How many words"), min(shown, 1), max(shown, MOST_TAPS), shown, key=f"{prefix}-tap"
            )
            if count != shown:
                fields.set("tap", count)
        case "number":
            _edit_quantity(fields, prefix, numbers)
        case "reach":
            fields.text("reach", _("What has to hold"), help=_(CONDITION_HELP), placeholder="largest weight < 0.25")


def _edit_choice(fields: Fields, prefix: str) -> None:
    options = fields.lines("choose", _("Texts to choose from, one per line"))
    if not options:
        fields.set("choose", [])
        return
    shown = fields.table.get("right")
    index = options.index(shown) if shown in options else 0
    right = st.selectbox(_("Right is"), options, index, key=f"{prefix}-right-{len(options)}")
    if right != shown:
        fields.set("right", right)


def _edit_quantity(fields: Fields, prefix: str, numbers: Quantities | None) -> None:
    """Draws a menu of what the page computes, in which another name can be written; a field where that is not known."""
    if not numbers:
        fields.text(
            "number",
            _("Name of the quantity"),
            help=_("If the page does not have it, the preview lists what the page has."),
        )
        return
    shown = str(fields.table["number"])
    options = [*dict.fromkeys([*numbers, shown])]
    name = st.selectbox(
        _("Quantity"),
        options,
        options.index(shown),
        key=f"{prefix}-number",
        accept_new_options=True,
        format_func=lambda one: f"{one} = {numbers[one]:.2f}" if one in numbers else one,
    )
    if name and name != shown:
        fields.set("number", name)


def _first(numbers: Quantities | None) -> str:
    return next(iter(numbers or {}), "largest weight")


def mistakes(step: LessonTable, numbers: Quantities | None, *, stays: bool) -> list[str]:
    """Returns what the page of a step does not bear out, as sentences; nothing where its numbers are not known.

    If the page `stays` as the reader has left it, only names are checked.
    """
    if numbers is None:
        return []
    problems = []
    try:
        match next((name for name in CHECKS if name in step), NO_CHECK):
            case "tap":
                count = len(token_weights(numbers))
                if count < Tap(int(step["tap"])).count:  # type: ignore[call-overload]
                    problems.append(
                        _("This page has {count} words with a weight to tap. Pin a query there.", count=count)
                    )
            case "number":
                find_quantity(NumberCheck(str(step["number"])).quantity, numbers)
            case "reach":
                reached = Condition.parse(str(step["reach"])).is_right(None, numbers)
                if reached and not stays:
                    problems.append(_("This holds already when the step opens: the reader has nothing to do."))
    except ValueError as problem:
        problems.append(str(problem))
    for text in step.get("holds", []):  # type: ignore[attr-defined]
        try:
            condition = Condition.parse(str(text))
            if not condition.is_right(None, numbers) and not stays:
                problems.append(
                    _(
                        "“{text}” does not hold: {quantity} is {number}.",
                        text=text,
                        quantity=condition.quantity,
                        number=f"{numbers[condition.quantity]:.2f}",
                    )
                )
        except ValueError as problem:
            problems.append(str(problem))
    return problems
