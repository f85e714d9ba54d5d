"""Controls of the Effects page: the model, its text, and what effects are measured by, as a sentence with menus."""

from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz.language import _
from attnviz.server.page_runs import PageEnd
from attnviz.state.effects import CIRCUITS, DETECTORS_TAB, EffectsState
from attnviz.state.fields import Field
from attnviz.ui import cache, presentation
from attnviz.ui.field_widgets import draw, hidden_container, open_tab
from attnviz.ui.model_menu import choose_model, keep_model, load_or_end
from attnviz.ui.question_menu import draw_sentence

UNMEASURED = CIRCUITS, DETECTORS_TAB  # tabs without effects
QUESTION = EffectsState.measure, EffectsState.position, EffectsState.token, EffectsState.other


def choose_effects(notes: DeltaGenerator) -> EffectsState:
    """Draws the controls and returns a state with what effects are measured by; problems are shown in `notes`. If there
    is none, the page ends."""
    values: dict[str, Any] = {}
    with st.sidebar:
        values["model"] = choose_model(EffectsState.model)
    has_text = open_tab(EffectsState.inspect) != DETECTORS_TAB  # which has random tokens
    with presentation.control("text") if has_text else hidden_container("text"):
        values["text"] = draw(EffectsState.text, EffectsState.partial(**values))
    load_or_end(values["model"], notes, values["text"])
    state = cache.or_last_good(
        "effects", values["model"], lambda: _choose_state(values, notes), lambda: _example(values["model"]), notes
    )
    if state is None:
        raise PageEnd
    return state


def _choose_state(values: dict[str, Any], notes: DeltaGenerator) -> EffectsState:
    """Draws the controls of the measure. Raises ValueError if nothing can be measured by it."""
    with st.sidebar:
        values["written"] = draw(EffectsState.written, EffectsState.partial(**values))
    with notes, st.spinner(_("Computing …"), show_time=True):
        assert EffectsState.partial(**values).run  # which takes the time of some forward passes
    keep_model(values["model"])
    words: list[tuple[str, Field[Any]]] = [
        (_("Effect on"), EffectsState.measure), (_("of"), EffectsState.token), (_("rather than"), EffectsState.other),
        (_("after"), EffectsState.position),
    ]  # fmt: skip
    is_measured = open_tab(EffectsState.inspect) not in UNMEASURED
    with presentation.control("question") if is_measured else hidden_container("question"):
        draw_sentence(EffectsState, words, QUESTION, values, "effects-question")
    state = EffectsState(**values)
    state.check_metric()
    return state


def _example(model: str) -> EffectsState | None:
    """Returns the example of a model, or None if nothing can be measured in it."""
    try:
        state = EffectsState(model=model)
        state.check_metric()
    except (ValueError, NotImplementedError):
        return None
    return state
