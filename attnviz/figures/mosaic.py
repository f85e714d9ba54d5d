"""Many heads as one picture: a single heatmap with gaps, never one chart a head."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

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
    square: float = 0.0,
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
    above = round(height * (0.25 if labels else 0.05 if row_names else 0.2)) or 1
    beside = round(width * 0.06) or 1
    tiles = Tiles(-(-heads // columns), columns, height, width, height + above, width + beside)
    canvas = np.full(tiles.size, GAP_CODE, dtype="u1")
    for head, tile in enumerate(codes):
        top, left = tiles.corner(head)
        canvas[top : top + height, left : left + width] = tile

    over = labels or ([] if row_names else names)
    written = [
        {
            "x": left - 0.5, "y": top - 0.5, "text": name, "showarrow": False,
            "xanchor": "left", "yanchor": "bottom", "xshift": -2, "yshift": -4,
        }
        for name, (top, left) in zip(over, map(tiles.corner, range(len(over))), strict=True)
    ]  # fmt: skip
    figure = tiles.figure(
        go.Heatmap(z=canvas, coloraxis=COLOR_AXES["codes"], zsmooth=False, hoverinfo="none"),
        names, chosen, square,
        **{COLOR_AXES["codes"]: {"cmin": 0, "cmax": LAST_CODE}},
        margin={"l": 4, "r": 4, "t": 4, "b": 4},
        annotations=written,
    )  # fmt: skip
    if row_names:
        figure.update_yaxes(title={"text": titles[0], "standoff": 10})
        figure.update_xaxes(title={"text": titles[1], "standoff": 10})
    figure.update_yaxes(**_ticks(row_names, above + height / 2, tiles.tall))
    figure.update_xaxes(side="top", **_ticks(column_names, width / 2, tiles.broad))
    return figure


@dataclass(frozen=True)
class Tiles:
    """Heads in reading order, each of `height` × `width` cells at the lower left of `tall` × `broad` ones."""

    rows: int
    columns: int
    height: int = 1
    width: int = 1
    tall: int = 1
    broad: int = 1

    def corner(self, head: int) -> tuple[int, int]:
        """The first row and the first column of a head."""
        row, column = divmod(head, self.columns)
        return (row + 1) * self.tall - self.height, column * self.broad

    @property
    def size(self) -> tuple[int, int]:
        """The rows and the columns of the whole."""
        return self.rows * self.tall, self.columns * self.broad - (self.broad - self.width)

    def figure(
        self, cells: go.Heatmap, names: Sequence[str], chosen: Sequence[int], square: float, **layout: Any
    ) -> go.Figure:
        """The cells with their axes, the chosen heads framed, and what `head_at` needs to know."""
        height, width = self.size
        measures = {**vars(self), "above": self.tall - self.height, "names": list(names), "square": square}
        framed = [
            {
                "type": "rect", "line": {"color": ACCENT, "width": 3},
                "x0": left - 0.5, "x1": left + self.width - 0.5, "y0": top - 0.5, "y1": top + self.height - 0.5,
            }
            for top, left in map(self.corner, chosen)
        ]  # fmt: skip
        figure = go.Figure(cells)
        figure.update_layout(
            template=THEMES["light"], plot_bgcolor="rgba(0,0,0,0)", meta=measures, dragmode=False, hovermode=False,
            shapes=framed, **layout,
        )  # fmt: skip
        figure.update_yaxes(range=[height - 0.5, -0.5], showline=False)
        figure.update_xaxes(range=[-0.5, width - 0.5], showline=False)
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
