"""Controls of the Steps page: the example, its edits, the head and the query."""

from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz.language import _
from attnviz.state.steps import TRANSLATOR, StepsState
from attnviz.steps.sentence_example import FEWEST_WORDS, MOST_WORDS
from attnviz.ui import cache
from attnviz.ui.field_widgets import draw
from attnviz.ui.markdown import plain
from attnviz.ui.steps import edits

EXAMPLE_FIELDS = StepsState.fields[: StepsState.fields.index(StepsState.edits)]


def choose_steps(notes: DeltaGenerator) -> StepsState:
    """Draws the controls in the sidebar, and returns the state; problems are shown in `notes`."""
    with st.sidebar:
        values = _choose_example()
        place = st.container()
    valid_edits, lost = edits.linked_edits(StepsState.partial(**values))
    if lost:
        notes.warning(plain(lost))
    is_translator = values["attention"] == TRANSLATOR

    def chosen() -> StepsState:
        state = StepsState(**values, edits=valid_edits)
        assert state.steps
        return state

    def first() -> StepsState:
        return StepsState(attention=TRANSLATOR) if is_translator else StepsState()

    state = cache.or_last_good("steps", is_translator, chosen, first, notes)
    with place:
        row = draw(StepsState.query, state)
    head = min(values["head_shown"], state.steps.inputs.heads - 1)  # the last good example may have fewer
    return state.updated(query=row, head_shown=head)


def _choose_example() -> dict[str, Any]:
    """Draws the fields of an example that are offered; returns their values."""
    values: dict[str, Any] = {}
    words = _("Use {fewest_words} to {most_words} words.", fewest_words=FEWEST_WORDS, most_words=MOST_WORDS)
    for field in EXAMPLE_FIELDS:
        options = {"help": words} if field is StepsState.sentence else {}
        values[field.name] = draw(field, StepsState.partial(**values), **options)
    return values
