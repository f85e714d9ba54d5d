"""Layers and heads as one grid, a cell each head, colored by one measure."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float

from attnviz.figures.mosaic import Tiles
from attnviz.figures.themes import COLOR_AXES

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
    colorbar = {"orientation": "h", "x": 1, "xanchor": "right", "y": 1, "yanchor": "bottom", "len": 0.5}
    figure = Tiles(rows, columns).figure(
        go.Heatmap(z=values.astype("f4"), coloraxis=axis, zsmooth=False, hoverinfo="none", xgap=GAP, ygap=GAP),
        names, chosen, TALL * rows / columns,
        **{axis: {"cmin": 0, "cmax": largest, "colorbar": colorbar}},
        margin={"l": 8, "r": 8, "t": 44, "b": 8},
    )  # fmt: skip
    figure.update_yaxes(title={"text": titles[0], "standoff": 4}, automargin=True, **_ticks(rows))
    figure.update_xaxes(title={"text": titles[1], "standoff": 18}, automargin=True, **_ticks(columns))
    return figure


def _ticks(count: int) -> dict:
    return {"tickvals": list(range(0, count, -(-count // MOST)))}
