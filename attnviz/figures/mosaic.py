"""Many heads as one picture: a single heatmap with gaps, never one chart a head."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Bool, Float

from attnviz.figures.themes import COLOR_AXES, FIRST_CODE, GAP_CODE, LAST_CODE, MASKED_CODE, THEMES

FINE = 40
ACCENT = "#e8590c"  # seen on both ends of both scales


def mosaic(
    weights: Float[np.ndarray, "heads height width"],
    *,
    largest: float = 1.0,
    columns: int,
    names: Sequence[str],
    row_names: Sequence[str] = (),
    column_names: Sequence[str] = (),
    chosen: Sequence[int] = (),
    titles: tuple[str, str] = ("heads", "layers"),
    labels: Sequence[str] = (),
    blank: Bool[np.ndarray, "heads height width"] | None = None,
    square: float = 0,
) -> go.Figure:
    """Heads in reading order, `columns` in a row, their weights as colors from 0 to `largest`; NaN is not allowed.

    A head's name stands above it, or its label where there are `labels`; where rows and columns have names of their
    own, nothing else does, and `titles` say what rows and columns are. The `chosen` heads are framed. Cells that are
    `blank` have the color of the page. `layout.meta` holds the measures from which `head_at` tells what head a cell
    belongs to, and `square`, how high the picture is for its width.
    """
    # Small heads are drawn in cells of several pixels, so that gaps and names need no whole cell.
    finer = max(1, FINE // max(weights.shape[1:]))
    weights = weights.repeat(finer, axis=1).repeat(finer, axis=2)
    heads, height, width = weights.shape
    steps = FIRST_CODE + (weights / largest).clip(0, 1) * (LAST_CODE - FIRST_CODE)
    codes = np.where(np.isnan(steps), MASKED_CODE, steps.round()).astype("u1")
    if blank is not None:
        codes[blank.repeat(finer, axis=1).repeat(finer, axis=2)] = GAP_CODE
    rows = -(-heads // columns)
    above = round(height * (0.25 if labels else 0.05 if row_names else 0.2)) or 1
    beside = round(width * 0.06) or 1
    tall, broad = height + above, width + beside
    canvas = np.full((rows * tall, columns * broad - beside), GAP_CODE, dtype="u1")
    corners = [(head // columns * tall + above, head % columns * broad) for head in range(heads)]
    for (top, left), tile in zip(corners, codes, strict=True):
        canvas[top : top + height, left : left + width] = tile

    figure = go.Figure(go.Heatmap(z=canvas, coloraxis=COLOR_AXES["codes"], zsmooth=False, hoverinfo="none"))
    frames = [
        {
            "type": "rect", "line": {"color": ACCENT, "width": 3},
            "x0": left - 0.5, "x1": left + width - 0.5, "y0": top - 0.5, "y1": top + height - 0.5,
        }
        for top, left in (corners[head] for head in chosen)
    ]  # fmt: skip
    over = labels or ([] if row_names else names)
    written = [
        {
            "x": left - 0.5, "y": top - 0.5, "text": name, "showarrow": False,
            "xanchor": "left", "yanchor": "bottom", "xshift": -2, "yshift": -4,
        }
        for name, (top, left) in zip(over, corners[: len(over)], strict=True)
    ]  # fmt: skip
    figure.update_layout(
        template=THEMES["light"],
        **{COLOR_AXES["codes"]: {"cmin": 0, "cmax": LAST_CODE}},
        plot_bgcolor="rgba(0,0,0,0)",
        meta={
            "rows": rows,
            "columns": columns,
            "names": list(names),
            "tall": tall,
            "broad": broad,
            "above": above,
            "width": width,
            "square": square,
        },
        margin={"l": 4, "r": 4, "t": 4, "b": 4},
        dragmode=False,
        hovermode=False,
        shapes=frames,
        annotations=written,
    )
    if row_names:
        figure.update_yaxes(title={"text": titles[0], "standoff": 2})
        figure.update_xaxes(title={"text": titles[1], "standoff": 2})
    figure.update_yaxes(range=[rows * tall - 0.5, -0.5], showline=False, **_ticks(row_names, above + height / 2, tall))
    figure.update_xaxes(
        range=[-0.5, columns * broad - beside - 0.5],
        showline=False,
        side="top",
        **_ticks(column_names, width / 2, broad),
    )
    return figure


def head_at(figure: go.Figure, row: int, column: int) -> int | None:
    """The head whose tile, or whose name above it, holds this cell of a mosaic; None beyond the last."""
    meta = figure.layout.meta
    head = row // meta["tall"] * meta["columns"] + column // meta["broad"]
    return head if 0 <= head < len(meta["names"]) else None


def _ticks(names: Sequence[str], start: float, step: int) -> dict:
    if not names:
        return {"showticklabels": False}
    return {
        "tickvals": [start + i * step - 0.5 for i in range(len(names))],
        "ticktext": list(names),
        "automargin": True,
    }
