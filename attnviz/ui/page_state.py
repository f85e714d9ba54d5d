"""The state of a page, which is read from the session and the link before any widget is drawn, and its widgets."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import streamlit as st

from attnviz.base.language import option_name
from attnviz.page.fields import ChoiceField, Field, LinkReader, ModelField, ParsedField, TextField, WidgetPlace
from attnviz.page.state import State
from attnviz.page.text_question import AVERAGE_TOKEN
from attnviz.ui.field_widgets import draw, draw_text, hidden_container, note_refusal
from attnviz.ui.link_state import link_parameters
from attnviz.ui.markdown import plain
from attnviz.ui.model_menu import typed_model
from attnviz.ui.widget_values import current_value, set_drawn_value

OFFERED = 12  # of the likeliest tokens in a menu

S = TypeVar("S", bound=State)
Words = Sequence[tuple[str, Field[Any]]]


def current_state(kind: type[S], fields: Sequence[Field[Any]] = (), **known: Any) -> S:
    """Returns the state of this run, or of its first fields alone: each has the value of its widget, or that of the
    link before it is drawn first, but what is known. If a value cannot be taken, the `problem` of the state says
    why."""
    link = LinkReader(link_parameters())

    def choose(field: Field[Any], state: S) -> Any:
        if field.name in known:
            return known[field.name]
        value = current_value(field, state, link)
        return typed_model(value) if isinstance(field, ModelField) else value

    if not fields:
        return kind.resolved(choose)
    values: dict[str, Any] = {}
    for field in fields:
        state = kind.partial(**values)
        values[field.name] = choose(field, state) if field.is_offered(state) else field.opening(state)
    return kind.partial(**values)


def draw_field(field: Field[Any], state: State, draw_widget: Callable[..., Any] = draw) -> None:
    """Draws the widget of a field with the value that the state has."""
    set_drawn_value(field, state)
    draw_widget(field, state)


def draw_hidden_fields(state: State) -> None:
    """Draws the widgets of the fields that nobody sees, so that the link keeps their values."""
    for field in state.fields:
        if field.place == "hidden" and field.name in state.values and field.is_offered(state):
            with hidden_container(field.parameter):
                draw_field(field, state, _draw_hidden_text if isinstance(field, ParsedField) else draw)


def draw_widgets(place: WidgetPlace, state: State, but: Sequence[Field[Any]]) -> None:
    """Draws the widgets of the other fields that stand in a place."""
    for field in state.fields:
        if field.place == place and field not in but and field.name in state.values:
            draw_field(field, state)


def draw_words(state: State, words: Words, key: str) -> None:
    """Draws fields as a sentence of words with menus after them."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key=key):
        for text, field in words:
            if field.name in state.values and field.is_offered(state):
                with st.container(horizontal=True, vertical_alignment="center", gap="small", width="content"):
                    st.markdown(plain(text), width="content")
                    with st.container(width="content"):
                        draw_field(field, state, draw_menu)


def _draw_hidden_text(field: Field[Any], state: State) -> None:
    assert isinstance(field, ParsedField)
    note_refusal(field, state)
    draw_text(field, label_visibility="collapsed")


def draw_menu(field: Field[Any], state: Any) -> Any:
    """Draws a field of a question and returns its value; for a token any word may be typed."""
    if not isinstance(field, TextField):
        longest = (
            max(len(option_name(option)) for option in field.options(state)) if isinstance(field, ChoiceField) else 0
        )
        return draw(field, state, label_visibility="collapsed", width=max(140, min(260, 7 * longest + 50)))
    opening = field.opening(state)
    likeliest = [state.run.name(token) for token, _probability in state.run.likeliest(state.position, OFFERED)]
    first = [option_name(AVERAGE_TOKEN)] if field.name == "other" else []

    def menu(value: str, **more: Any) -> str | None:
        options = list(dict.fromkeys([opening, *first, *likeliest, value]))
        return st.selectbox(options=options, accept_new_options=not state.run.names_labels, **more)

    return draw_text(field, menu, opening=opening, label_visibility="collapsed", width=130, help=None)
