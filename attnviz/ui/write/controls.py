"""Controls of the Write page: the model, the prompt, and how the next token is chosen."""

from typing import Any

import streamlit as st

from attnviz.state.fields import Field
from attnviz.state.write import WriteState
from attnviz.ui import presentation
from attnviz.ui.field_widgets import draw, draw_hidden_value
from attnviz.ui.model_menu import choose_model

SIDEBAR: tuple[Field[Any], ...] = (
    WriteState.chat, WriteState.system, WriteState.length,
    WriteState.next_token, WriteState.temperature, WriteState.top_k, WriteState.top_p, WriteState.seed,
)  # fmt: skip


def choose_written() -> WriteState:
    """Draws the controls; returns a partial state: the text that is to be written, and its branches."""
    values: dict[str, Any] = {}
    with st.sidebar:
        values["model"] = choose_model(WriteState.model)
    with presentation.control("prompt"):
        values["prompt"] = draw(WriteState.prompt, WriteState.partial(**values))
    with st.sidebar:
        for field in SIDEBAR:
            values[field.name] = draw(field, WriteState.partial(**values))
    values["earlier"] = draw_hidden_value(WriteState.earlier) if values["chat"] else ()
    values["choices"] = draw_hidden_value(WriteState.choices)
    values["branches"] = draw_hidden_value(WriteState.branches)
    return WriteState.partial(**values)
