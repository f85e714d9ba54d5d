"""Controls of the Why page: the model, its text, and the question as a sentence with menus in it."""

from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz.language import _
from attnviz.server.page_runs import PageEnd
from attnviz.state.fields import Field, LinkReader
from attnviz.state.why import LOGIT_QUESTION, WhyState
from attnviz.ui import cache, presentation
from attnviz.ui.field_widgets import draw, draw_hidden_value, field_value, set_field_value
from attnviz.ui.link_state import link_parameters, opens_in_place
from attnviz.ui.model_menu import choose_model, keep_model, load_or_end
from attnviz.ui.question_menu import draw_sentence
from attnviz.ui.session_values import SessionValue
from attnviz.views.why_answer import StateAnswer, why_answer

_question = SessionValue[tuple[tuple[str, Any], ...]]("question of Why", tuple)


def choose_answer(notes: DeltaGenerator) -> StateAnswer:
    """Draws the controls and returns the answer; problems are shown in `notes`. If there is none, the page ends."""
    values: dict[str, Any] = {}
    with st.sidebar:
        values["model"] = choose_model(WhyState.model)
    with presentation.control("text"):
        values["text"] = draw(WhyState.text, WhyState.partial(**values))
    load_or_end(values["model"], notes, values["text"])
    state = cache.or_last_good(
        "why", values["model"], lambda: _choose_state(values, notes), lambda: _example(values["model"]), notes
    )
    if state is None:
        raise PageEnd
    return why_answer(state)


def _choose_state(values: dict[str, Any], notes: DeltaGenerator) -> WhyState:
    """Draws the controls of the question, and returns a state that has an answer. Raises ValueError if it has none."""
    with st.sidebar:
        for field in (WhyState.written, WhyState.question):
            values[field.name] = draw(field, WhyState.partial(**values))
    with notes, st.spinner(_("Computing …"), show_time=True):
        assert WhyState.partial(**values).run  # which takes the time of some forward passes
    keep_model(values["model"])
    with presentation.control("question"):
        _choose_question(values)
    _drop_terms_of_another_question(tuple(values.items()))
    state = WhyState(
        **values, trail=draw_hidden_value(WhyState.trail), term=draw_hidden_value(WhyState.term), tree=_is_tree()
    )
    with notes, st.spinner(_("Computing …"), show_time=True):
        why_answer(state)
    return state


def _drop_terms_of_another_question(question: tuple[tuple[str, Any], ...]) -> None:
    """Drops the opened terms if somebody has changed the question, to whose sum they do not belong."""
    if not opens_in_place() and _question.get() not in ((), question):
        set_field_value(WhyState.trail, ())
        set_field_value(WhyState.term, None)
    _question.set(question)


def _is_tree() -> bool:
    """Returns the value of the switch, which is drawn below the answer."""
    switched = field_value(WhyState.tree)
    return bool(WhyState.tree.read(None, LinkReader(link_parameters())) if switched is None else switched)


def _example(model: str) -> WhyState | None:
    """Returns the example of a model, or None if it has no answer."""
    try:
        why_answer(state := WhyState(model=model))
    except (ValueError, NotImplementedError):
        return None
    return state


def _choose_question(values: dict[str, Any]) -> None:
    """Draws the fields of the question as a sentence, and adds their values."""
    words: list[tuple[str, Field[Any]]] = [
        (_("Why does it say"), WhyState.token), (_("rather than"), WhyState.other), (_("after"), WhyState.position),
    ]  # fmt: skip
    if values["question"] != LOGIT_QUESTION:
        words = [
            (_("Why does"), WhyState.layer), (_("head"), WhyState.head), (_("look from"), WhyState.query),
            (_("at"), WhyState.key), (_("rather than at"), WhyState.over),
        ]  # fmt: skip
    first, end = (WhyState.fields.index(field) for field in (WhyState.position, WhyState.trail))
    draw_sentence(WhyState, words, WhyState.fields[first:end], values, "why-question")
