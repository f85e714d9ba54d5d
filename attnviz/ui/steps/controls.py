"""Controls of the Steps page: the example, its edits, the head and the query."""

from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz.language import _
from attnviz.state.steps import StepsState, chosen_example, computed_steps, has_translator
from attnviz.steps import (
    FEWEST_WORDS,
    MOST_WORDS,
    Edits,
    SentenceExample,
    Steps,
    StepsExample,
    TranslatorExample,
)
from attnviz.ui import cache
from attnviz.ui.field_widgets import draw, set_field_value
from attnviz.ui.markdown import plain
from attnviz.ui.steps import edits

EXAMPLE_FIELDS = StepsState.fields[: StepsState.fields.index(StepsState.edits)]


@dataclass(frozen=True, eq=False)
class StepsSelection:
    """A computed example with its edits, and the selected head and query."""

    example: StepsExample
    edits: Edits
    steps: Steps
    head: int
    row: int
    problem: str  # why the chosen example cannot be shown; empty if it is the one that is


def choose_steps(notes: DeltaGenerator) -> StepsSelection:
    """Draws the controls in the sidebar; problems are shown in `notes`."""
    with st.sidebar:
        state = _choose_example()
        place = st.container()
    make = partial(chosen_example, state)
    chosen_edits, lost = edits.linked_edits(make)
    if lost:
        notes.warning(plain(lost))
    fallback = TranslatorExample() if has_translator(state) else SentenceExample()

    def computed(example: StepsExample, changes: Edits) -> tuple[StepsExample, Edits, Steps]:
        return example, changes, computed_steps(example, changes)

    example, valid_edits, steps = cache.or_last_good(
        "steps", type(fallback).__name__, lambda: computed(make(), chosen_edits), lambda: computed(fallback, {}), notes
    )
    with place:
        row = draw(StepsState.query, SimpleNamespace(example=example))
    head = min(state.head_shown, steps.inputs.heads - 1)  # the last good example may have fewer
    return StepsSelection(example, valid_edits, steps, head, row, edits.example_error(make, chosen_edits))


def show_query(example: StepsExample, row: int) -> None:
    """Selects a query."""
    state = SimpleNamespace(example=example)
    if row in StepsState.query.options(state).values():
        set_field_value(StepsState.query, row, state)


def _choose_example() -> SimpleNamespace:
    """Draws the fields of an example that are offered; returns their values."""
    state = SimpleNamespace()
    words = _("Use {fewest_words} to {most_words} words.", fewest_words=FEWEST_WORDS, most_words=MOST_WORDS)
    for field in EXAMPLE_FIELDS:
        setattr(state, field.name, draw(field, state, **({"help": words} if field is StepsState.sentence else {})))
    return state
