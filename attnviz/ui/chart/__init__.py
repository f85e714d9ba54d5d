"""The one chart: shows any plotly figure, keeps its zoom, reads cells out, and reports clicks.

`st.plotly_chart` draws anew whenever a figure changes, loses the zoom and reports no click on a heatmap; this
component owns its graph. What it does in the browser is in chart.js.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
import streamlit as st
from plotly.offline import get_plotlyjs, get_plotlyjs_version
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from attnviz.figures.themes import THEMES

_HERE = Path(__file__).parent
_PLOTLY = f"/vendor/plotly-{get_plotlyjs_version()}.min.js"


def chart(
    figure: go.Figure,
    key: str,
    *,
    label: str,
    description: str,
    height: int,
    pinned: int | None = None,
    on_click: Callable[[], None] | None = None,
) -> None:
    """Shows a figure under `key`, `height` pixels high; `label` and `description` say it to a screen reader.

    A click calls `on_click`, which finds the cell by `clicked(key)`. `pinned` marks a row of a heatmap. The root
    element says data-ready="true" once the figure is painted, and data-rows and data-columns from `layout.meta`.
    """
    _mount()(
        key=key,
        data=_packed(
            {
                # Figure.to_plotly_json would write arrays as base64.
                "figure": {
                    "data": [trace.to_plotly_json() for trace in figure.data],
                    "layout": figure.layout.to_plotly_json() | {"template": None},
                },
                "themes": {theme: template.to_plotly_json() for theme, template in THEMES.items()},
                "label": label,
                "description": description,
                "height": height,
                "pinned": pinned,
                "name": f"attnviz-{key}",
                "plotly": st.get_option("server.baseUrlPath").rstrip("/") + _PLOTLY,
            }
        ),
        on_click_change=on_click or _nothing,
    )


def clicked(key: str) -> tuple[int, int]:
    """The row and column of the cell that was clicked, inside an `on_click` callback."""
    cell = st.session_state[key]["click"]
    return int(cell["row"]), int(cell["column"])


def plotly_route() -> Route:
    """Serves the plotly.js of the installed plotly package, once, for a year."""
    script = get_plotlyjs().encode()
    headers = {"cache-control": "public, max-age=31536000, immutable"}

    async def serve(request: Request) -> Response:
        return Response(script, media_type="text/javascript", headers=headers)

    return Route(_PLOTLY, serve)


def _packed(header: dict[str, Any]) -> bytes:
    """A header of JSON and the arrays it mentions as raw bytes: nothing is written out as text."""
    arrays: list[np.ndarray] = []

    def aside(value: object) -> dict[str, Any]:
        if not isinstance(value, np.ndarray):
            raise TypeError(f"A figure cannot hold a {type(value).__name__}.")
        arrays.append(np.ascontiguousarray(value))
        return {"array": len(arrays) - 1, "dtype": value.dtype.str[1:], "shape": value.shape}

    text = json.dumps(header, default=aside).encode()
    text += b" " * (-len(text) % 8)
    parts = [len(text).to_bytes(8, "little"), text]
    for array in arrays:
        parts += [array.tobytes(), bytes(-array.nbytes % 8)]
    return b"".join(parts)


@st.cache_resource(show_spinner=False)
def _mount() -> Callable[..., Any]:
    return st.components.v2.component(
        "attnviz_chart",
        html=(_HERE / "chart.html").read_text(encoding="utf-8"),
        css=(_HERE / "chart.css").read_text(encoding="utf-8"),
        js=(_HERE / "chart.js").read_text(encoding="utf-8"),
        isolate_styles=False,
    )


def _nothing() -> None:
    """A click that nobody asked for."""
