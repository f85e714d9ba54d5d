"""The menus of a question about what a model says, which stand in a sentence."""

from collections.abc import Sequence
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz.language import option_name
from attnviz.state.fields import ChoiceField, Field, TextField
from attnviz.state.state import State
from attnviz.state.text_question import AVERAGE_TOKEN
from attnviz.ui.field_widgets import draw, draw_text
from attnviz.ui.markdown import plain

OFFERED = 12  # of the likeliest tokens in a menu


def draw_sentence(
    kind: type[State], words: Sequence[tuple[str, Field[Any]]], fields: Sequence[Field[Any]], values: dict[str, Any],
    key: str,
) -> None:  # fmt: skip
    """Draws fields of a page's state as a sentence of words with menus after them, and adds their values; those that
    the sentence does not have are drawn in the sidebar, if they are offered. A field may depend on those before it; if
    the first of them begins the sentence, it may decide which of the others are offered."""
    places: dict[str, DeltaGenerator] = {}
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key=key):
        for text, field in words:
            if field.is_offered(kind.partial(**values)):
                with st.container(horizontal=True, vertical_alignment="center", gap="small", width="content"):
                    st.markdown(plain(text), width="content")
                    places[field.name] = st.container(width="content")
            if field is fields[0] is words[0][1]:
                with places[field.name]:
                    values[field.name] = draw_menu(field, kind.partial(**values))
    for field in (each for each in fields if each.name not in values):
        state = kind.partial(**values)
        if field.name in places:
            with places[field.name]:
                values[field.name] = draw_menu(field, state)
        else:
            with st.sidebar:
                values[field.name] = draw(field, state)


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
