"""The menus of a question about what a model says, which stand in a sentence."""

from typing import Any

import streamlit as st

from attnviz.base.language import option_name
from attnviz.state.fields import ChoiceField, Field, TextField
from attnviz.state.text_question import AVERAGE_TOKEN
from attnviz.ui.field_widgets import draw, draw_text

OFFERED = 12  # of the likeliest tokens in a menu


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
