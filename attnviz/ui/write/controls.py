"""Controls of the Write page: the model, the prompt, and how the next token is chosen."""

import time
from typing import Any

import streamlit as st

from attnviz.state.fields import Field
from attnviz.state.write import WriteState
from attnviz.ui import presentation
from attnviz.ui.field_widgets import draw, draw_hidden_value
from attnviz.ui.model_menu import choose_model
from attnviz.ui.session_values import SessionValue
from attnviz.ui.widget_values import field_value, set_field_value

SIDEBAR: tuple[Field[Any], ...] = (
    WriteState.chat, WriteState.system, WriteState.length,
    WriteState.next_token, WriteState.temperature, WriteState.top_k, WriteState.top_p, WriteState.seed,
)  # fmt: skip


STALE = 5.0  # seconds in which a browser may still send the number of tokens from before a button was pressed
# The number of tokens before a button was pressed, the one after, and until when that holds.
_length_change = SessionValue("number of tokens that a button asked for", lambda: (0, 0, 0.0))


def ask_length(before: int, after: int) -> None:
    """Gives the number of tokens another value, as a callback does. A request of the browser that is under way has the
    former value, and does not bring it back: while a text is written, its fragment requests runs all the time."""
    _length_change.set((before, after, time.monotonic() + STALE))
    set_field_value(WriteState.length, after)


def current_length() -> int | None:
    """Returns the number of tokens; None before its widget is drawn first."""
    before, after, until = _length_change.get()
    value = field_value(WriteState.length)
    return after if value == before and time.monotonic() < until else value


def choose_written() -> WriteState:
    """Draws the controls; returns a partial state: the text that is to be written, and its branches."""
    values: dict[str, Any] = {}
    if (length := current_length()) is not None and length != field_value(WriteState.length):
        set_field_value(WriteState.length, length)
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
