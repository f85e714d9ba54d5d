"""Lessons that are being written: tables of their files, which may not be whole yet, and the addresses of pages."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from urllib.parse import parse_qsl, urlsplit

from attnviz.base.app_pages import STATE_PAGES
from attnviz.base.formatting import enumeration, grouped
from attnviz.base.language import value_error
from attnviz.base.link import Link
from attnviz.lessons.lesson_files import (
    LESSON,
    MOST_STEPS,
    OPTIONAL,
    REQUIRED,
    STEP,
    STEP_OPTIONAL,
    STEP_REQUIRED,
    STEPS,
    is_parameter,
    link_state,
)

LessonTable = dict[str, object]
Place = tuple[str, Link]  # a page and its state
LONGEST_ADDRESS = 6000  # characters
OF_THE_READER = (LESSON, STEP, "right", "write", "embed", "embed_options")  # parameters that no state has
PAGE = "explore"  # of a lesson that names none
NEW_STEP: LessonTable = {"ask": "", "answer": ""}
NEW_LESSON: LessonTable = {
    "title": "",
    "about": "",
    "page": PAGE,
    "state": {"layer": "encoder 3", "head": "Head 1", "pinned": "10 · it"},
    "steps": [NEW_STEP],
}


def state_table(state: Link) -> LessonTable:
    """Returns link parameters by name; one that has several values is a list."""
    by_name = groupby(sorted(state, key=lambda one: [name for name, _ in state].index(one[0])), lambda one: one[0])
    values = {name: [value for _, value in pairs] for name, pairs in by_name}
    return {name: several if len(several) > 1 else several[0] for name, several in values.items()}


def can_be_edited(table: LessonTable) -> bool:
    """Returns whether every field has the type that its name says, and there are no more steps than a lesson may have;
    fields may be missing or unknown."""

    def fits(fields: LessonTable, types: Mapping[str, type]) -> bool:
        return all(
            isinstance(value, types[name]) and not isinstance(value, bool)
            for name, value in fields.items()
            if name in types
        )

    if not fits(table, REQUIRED | OPTIONAL):
        return False
    steps = lesson_steps(table)
    if len(steps) > MOST_STEPS or not all(
        isinstance(step, dict) and fits(step, STEP_REQUIRED | STEP_OPTIONAL) for step in steps
    ):
        return False
    states = [one.get("state", {}) for one in (table, *steps)]
    return all(is_parameter(value) for state in states for value in state.values())  # type: ignore[attr-defined]


def lesson_steps(table: LessonTable) -> list[LessonTable]:
    """Returns the tables of all steps."""
    return [one for field in STEPS for one in table.get(field, [])]  # type: ignore[attr-defined]


def step_places(table: LessonTable) -> list[Place | None]:
    """Returns the page and the state that each step opens; None where the page stays as the step before leaves it."""
    page = str(table.get("page", PAGE))
    places: list[Place | None] = []
    for step in lesson_steps(table):
        is_new = "page" in step or "state" in step
        page = str(step.get("page", page))
        state = step.get("state", {}) if is_new else table.get("state", {})
        places.append((page, link_state(state)) if is_new or not places else None)  # type: ignore[arg-type]
    return places


def placed(table: LessonTable, place: Place) -> LessonTable:
    """Returns the table with the page and the state of the lesson, in their usual order."""
    page, state = place
    kept = {name: value for name, value in table.items() if name != "state" or state}
    return kept | {"page": page} | ({"state": state_table(state)} if state else {})


def with_steps(table: LessonTable, steps: Sequence[LessonTable], places: Sequence[Place | None]) -> LessonTable:
    """Returns the lesson with these steps at these places, that of the first as the lesson's own."""
    kept = {name: value for name, value in table.items() if name not in STEPS}
    if places and (first := places[0]):
        kept = placed(kept, first)
    page, written = str(kept.get("page", PAGE)), []
    for number, (step, place) in enumerate(zip(steps, places, strict=True)):
        fields = {name: value for name, value in step.items() if name not in ("page", "state")}
        if place and number:
            moves = place[0] != page
            fields |= {"page": place[0]} if moves else {}
            fields |= {"state": state_table(place[1])} if place[1] or not moves else {}
            page = place[0]
        written.append(fields)
    return kept | ({"steps": written} if written else {})


def parse_address(text: str) -> Place:
    """Returns the page and the state of an address as the browser shows it. Raises ValueError if it is not valid.

    Example:
        >>> parse_address("https://example.org/explore?pinned=10+%C2%B7+it&lesson=one")
        ('explore', (('pinned', '10 · it'),))
    """
    text = text.strip()
    if len(text) > LONGEST_ADDRESS:
        raise value_error(
            "This address has {count} characters; a step may have {LONGEST_ADDRESS}.",
            count=grouped(len(text)),
            LONGEST_ADDRESS=grouped(LONGEST_ADDRESS),
        )
    if not text.isprintable():
        raise value_error("This address has characters that no address has. Copy it again from the browser.")
    try:
        parts = urlsplit(text)
        state = parse_qsl(parts.query, keep_blank_values=True, max_num_fields=100)
    except ValueError as problem:
        raise value_error(
            "This is not an address. Copy it from the browser, where the page is as you want it."
        ) from problem
    page = parts.path.rstrip("/").rpartition("/")[2]
    if page not in STATE_PAGES:
        raise value_error(
            "This is not the address of a page with lessons, which are {PAGES}.", PAGES=enumeration(STATE_PAGES)
        )
    return page, tuple((name, value) for name, value in state if name not in OF_THE_READER)
