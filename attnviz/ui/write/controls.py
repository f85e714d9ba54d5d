"""Controls of the Write page: the model, the prompt, and how the next token is chosen."""

from typing import Any

import streamlit as st

from attnviz.sources.written import Written
from attnviz.state.write import Branch, WriteState
from attnviz.ui import presentation
from attnviz.ui.field_widgets import draw, draw_hidden_value
from attnviz.ui.model_menu import choose_model


def choose_written() -> tuple[Written, tuple[Branch, ...]]:
    """Draws the controls; returns the text that is to be written, and the branches that were written before."""
    with st.sidebar:
        name = choose_model(WriteState.model)
    with presentation.control("prompt"):
        prompt = draw(WriteState.prompt)
    with st.sidebar:
        chat = draw(WriteState.chat)
        partial = WriteState.partial(chat=chat)
        system = draw(WriteState.system, partial)
        length = draw(WriteState.length)
        values: dict[str, Any] = {"next_token": draw(WriteState.next_token)}
        for field in (WriteState.temperature, WriteState.top_k, WriteState.top_p, WriteState.seed):
            values[field.name] = draw(field, WriteState.partial(**values))
    choices = draw_hidden_value(WriteState.choices)
    branches = draw_hidden_value(WriteState.branches)
    sampling = WriteState.partial(**values).sampling
    return Written(prompt, name, chat, system, sampling, int(length), choices), branches
