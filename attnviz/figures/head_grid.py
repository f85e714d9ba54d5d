"""Layers and heads as one grid, a cell each head, colored by one measure."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float

from attnviz.figures.mosaic import ACCENT
from attnviz.figures.themes import COLOR_AXES, THEMES

GAP = 2  # pixels between two heads
TALL = 1.3  # a head's height for its width, at most
MOST = 16  # numbers that fit along an axis


def head_grid(
    values: Float[np.ndarray, "rows columns"],
    names: Sequence[str],
    *,
    largest: float | None = None,
    chosen: Sequence[int] = (),
    titles: tuple[str, str] = ("layers", "heads"),
) -> go.Figure:
    """Values as colors from 0 to `largest`, or to the greatest that there is; NaN has no color.

    `names` say each cell in a sentence, row by row, and are empty where there is no head. The `chosen` cells are
    framed. `head_at` tells which cell was clicked, as for a mosaic.
    """
    rows, columns = values.shape
    if largest is None:
        largest = float(np.nanmax(values, initial=0)) or 1.0
    axis = COLOR_AXES["weights"]
    figure = go.Figure(
        go.Heatmap(z=values.astype("f4"), coloraxis=axis, zsmooth=False, hoverinfo="none", xgap=GAP, ygap=GAP)
    )
    colorbar = {"orientation": "h", "x": 1, "xanchor": "right", "y": 1, "yanchor": "bottom", "len": 0.5}
    figure.update_layout(
        template=THEMES["light"],
        **{axis: {"cmin": 0, "cmax": largest, "colorbar": colorbar}},
        plot_bgcolor="rgba(0,0,0,0)",
        meta={
            "rows": rows,
            "columns": columns,
            "names": list(names),
            "tall": 1,
            "broad": 1,
            "above": 0,
            "width": 1,
            "square": TALL * rows / columns,
        },
        margin={"l": 8, "r": 8, "t": 44, "b": 8},
        dragmode=False,
        hovermode=False,
        shapes=[_frame(*divmod(i, columns)) for i in chosen],
    )
    at_sides = {"showline": False, "automargin": True}
    figure.update_yaxes(range=[rows - 0.5, -0.5], title={"text": titles[0], "standoff": 4}, **_ticks(rows), **at_sides)
    figure.update_xaxes(
        range=[-0.5, columns - 0.5], title={"text": titles[1], "standoff": 8}, **_ticks(columns), **at_sides
    )
    return figure


def _ticks(count: int) -> dict:
    return {"tickvals": list(range(0, count, -(-count // MOST)))}


def _frame(row: int, column: int) -> dict:
    line = {"color": ACCENT, "width": 3}
    return {"type": "rect", "line": line, "x0": column - 0.5, "x1": column + 0.5, "y0": row - 0.5, "y1": row + 0.5}
