"""The path through a model as one picture, drawn by the browser code that begins in streamlit.js."""

from collections.abc import Callable, Mapping
from typing import Any

import streamlit as st

from attnviz.figures.themes import CHANGES, MASKED, WEIGHTS
from attnviz.ui import presentation, scripts

COLORS = {"weights": WEIGHTS, "changes": CHANGES, "masked": MASKED}


def path(
    picture: Mapping[str, Any],
    key: str,
    *,
    on_open: Callable[[str], None],
    on_head: Callable[[int], None],
    on_draw: Callable[[], None],
) -> None:
    """Draws a picture of the model, of a layer or of a part under `key`.

    `on_open` is called with the name of the layer or the part that is opened, and with an empty text for the whole
    model; `on_head` with a head, and `on_draw` when the next word is drawn again. The root element has
    data-ready="true" once it is drawn, data-depth, data-stage and data-playing.
    """

    def event(name: str) -> Any:
        return st.session_state[key][name]

    scripts.mount("ui/path")(
        key=key,
        data={**picture, "colors": COLORS, "presenting": presentation.presenting()},
        on_open_change=lambda: on_open(str(event("open"))),
        on_head_change=lambda: on_head(int(event("head"))),
        on_draw_change=on_draw,
    )
