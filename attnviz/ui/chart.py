"""The chart component: shows a figure with its specification, keeps its zoom, and reports clicks.

`st.plotly_chart` redraws whenever a figure changes, loses the zoom and reports no click on a heatmap; this component
owns its graph. Its browser code is in attnviz/chart/ and begins in streamlit.js.
"""

import zlib
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np

from attnviz.chart import header, pack
from attnviz.figures import Chart
from attnviz.figures.chart_spec import ChartSpec
from attnviz.page.blocks import Cells
from attnviz.ui.server import scripts
from attnviz.ui.session_values import SessionValue, event_callback


def chart(
    picture: Chart[ChartSpec],
    key: str,
    *,
    height: int,
    pinned: int | None = None,
    grows: bool | Literal["beside"] | None = None,
    title: str = "",
    cells: object = None,
    on_click: Callable[[int, int], None] | None = None,
    on_stroke: Callable[[np.ndarray, bool], None] | None = None,
    on_drag: Callable[[float, float], None] | None = None,
    on_zoom: Callable[[Cells | None], None] | None = None,
) -> None:
    """Shows a picture under `key`, `height` pixels high.

    A click calls `on_click(row, column)` with its cell, unless the picture has been replaced meanwhile by one of other
    `cells`, which by default every picture has; column −1 is the label of a row. With `on_stroke` cells can be painted:
    it is called with the cells of one stroke, of shape (cells, 2), and whether they become allowed.
    With `on_drag` the point of the specification's `drag` follows the pointer and the arrow keys, and `on_drag(x, y)`
    is called where it is dropped, in the units of the axes. With `on_zoom` a zoom asks for a picture of the viewport:
    it is called with the first and the last row and column of it, or with None to go back to the whole map.
    `pinned` marks a row of a heatmap, and with `grows` the picture is higher where the window has room, by default if
    its specification says so. The root element has data-ready="true" once the picture is painted, and data-rows and
    data-columns, the size of the map.
    """
    sent = header(
        picture,
        key,
        height=height,
        pinned=pinned,
        grows=grows,
        title=title,
        clicks=on_click is not None,
        views=on_zoom is not None,
    )
    figure, stamp = picture.figure, sent["stamp"]
    click_stamp = stamp if cells is None else zlib.crc32(repr(cells).encode())
    # A point may be dropped again before the answer to the last drop is here: only the axes have to be the same.
    axes = [figure.layout[axis].to_plotly_json() for axis in ("xaxis", "yaxis") if on_drag]
    drag_stamp = zlib.crc32(pack({"axes": axes}))

    last_drop = SessionValue(f"{key} drop", int)  # the last that this figure knows of

    def click(cell: Mapping[str, Any]) -> None:
        if on_click and cell["stamp"] == click_stamp:
            on_click(int(cell["row"]), int(cell["column"]))

    def stroke(painted: Mapping[str, Any]) -> None:
        if on_stroke and painted["stamp"] == stamp:
            on_stroke(np.array(painted["cells"], dtype=int).reshape(-1, 2), bool(painted["value"]))

    def drag(dropped: Mapping[str, Any]) -> None:
        last_drop.set(int(dropped["drop"]))
        if on_drag and dropped["stamp"] == drag_stamp:
            on_drag(float(dropped["x"]), float(dropped["y"]))

    def zoom(view: Mapping[str, Any]) -> None:
        if on_zoom and view["stamp"] == stamp:
            on_zoom(view["cells"] and tuple(map(int, view["cells"])))

    scripts.mount("chart")(
        key=key,
        data=pack(
            sent
            | {
                "paints": on_stroke is not None,
                "drags": on_drag is not None,
                "clickStamp": click_stamp,
                "dragStamp": drag_stamp,
                "drop": last_drop.get(),
                "plotly": scripts.plotly_address(),
            }
        ),
        on_click_change=event_callback(key, "click", click),
        on_stroke_change=event_callback(key, "stroke", stroke),
        on_drag_change=event_callback(key, "drag", drag),
        on_view_change=event_callback(key, "view", zoom),
    )
