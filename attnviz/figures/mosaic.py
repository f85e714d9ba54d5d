"""Many heads as one picture: a single heatmap with gaps, never one chart a head."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float

from attnviz.base.language import N_, _
from attnviz.figures.bands import frame
from attnviz.figures.chart_spec import About, Chart, MosaicSpec
from attnviz.figures.maps import Array, as_maps
from attnviz.figures.themes import COLOR_AXES, FIRST_CODE, GAP_CODE, LAST_CODE, MASKED_CODE, light_figure
from attnviz.mechanism import Attention

FINE = 40


def mosaic(
    weights: Attention | Float[Array, "*heads height width"],
    *,
    largest: float = 1.0,
    columns: int = 4,
    names: Sequence[str] | None = None,
    row_names: Sequence[str] = (),
    column_names: Sequence[str] = (),
    axes: tuple[str, str] = (N_("layers"), N_("heads")),
    chosen: Sequence[int] = (),
    aspect: float | None = None,
    least: int = 0,
) -> Chart[MosaicSpec]:
    """Draws heads in reading order, `columns` in a row, with weights as colors from 0 to `largest`; NaN is masked.

    Above a head is its name. With `row_names` or `column_names` the `axes`, down and across, have these, and heads have
    no names above them. The `chosen` heads have a frame. `spec.head_at` returns the head that has a cell of the
    picture. The picture is at most `aspect` times as high as it is wide; `least` is the least side of a head in pixels.
    An `Attention` knows what is masked; in maps masked cells must be NaN.

    Example:
        >>> chart = mosaic(np.full((4, 8, 8), 0.125), columns=2)
        >>> chart.spec.rows, chart.spec.columns, chart.spec.head_at(row=0, column=0)
        (2, 2, 0)
    """
    weights = as_maps(weights)
    names = [_("head {i}", i=i) for i in range(len(weights))] if names is None else names
    # Small heads are drawn in cells of several pixels, so that gaps and names need no whole cell.
    finer = max(1, FINE // max(weights.shape[1:]))
    weights = weights.repeat(finer, axis=1).repeat(finer, axis=2)
    heads, height, width = weights.shape
    steps = FIRST_CODE + (weights / largest).clip(0, 1) * (LAST_CODE - FIRST_CODE)
    codes = np.where(np.isnan(steps), MASKED_CODE, steps.round()).astype("u1")
    margin_height = round(height * (0.05 if row_names else 0.2)) or 1
    margin_width = round(width * 0.06) or 1
    rows = -(-heads // columns)
    tile = height + margin_height, width + margin_width
    spec = MosaicSpec(tuple(names), rows, columns, height, width, *tile, aspect, least)
    canvas = np.full(spec.size, GAP_CODE, dtype="u1")
    for head, tile in enumerate(codes):
        top, left = spec.corner(head)
        canvas[top : top + height, left : left + width] = tile

    place = {"showarrow": False, "xanchor": "left", "yanchor": "bottom", "xshift": -2, "yshift": -4}
    written = [
        {"x": left - 0.5, "y": top - 0.5, "text": name, **place}
        for name, (top, left) in ((name, spec.corner(i)) for i, name in enumerate([] if row_names else names))
    ]
    row_ticks = _ticks(row_names, margin_height + height / 2, spec.tile_height)
    column_ticks = _ticks(column_names, width / 2, spec.tile_width)
    figure = tiled(
        spec,
        go.Heatmap(z=canvas, coloraxis=COLOR_AXES["codes"], zsmooth=False, hoverinfo="none"),
        chosen,
        **{COLOR_AXES["codes"]: {"cmin": 0, "cmax": LAST_CODE}},
        margin={"l": 4, "r": 4, "t": 4, "b": 4},
        annotations=written,
        xaxis={"side": "top"} | (_title(_(axes[1])) if row_names else {}) | column_ticks,
        yaxis=(_title(_(axes[0])) if row_names else {}) | row_ticks,
    )
    about = About(
        label=_("Mosaic"),
        description=_("{count} small maps of weights, one for each head.", count=heads),
        name=_("attention heads"),
    )
    return Chart(figure, spec, about)


def tiled(
    spec: MosaicSpec, cells: go.Heatmap, chosen: Sequence[int], *, xaxis: dict, yaxis: dict, **layout: Any
) -> go.Figure:
    """Returns the figure of these cells with its axes, and frames around the chosen heads."""
    height, width = spec.size
    corners = map(spec.corner, chosen)
    frames = [frame(left, left + spec.width - 1, top, top + spec.height - 1) for top, left in corners]
    layout |= {
        "plot_bgcolor": "rgba(0,0,0,0)",
        "shapes": frames,
        "xaxis": {"range": [-0.5, width - 0.5], "showline": False} | xaxis,
        "yaxis": {"range": [height - 0.5, -0.5], "showline": False} | yaxis,
    }
    return light_figure(cells, layout)  # in one step: each update of a figure takes plotly several milliseconds


def _title(text: str) -> dict:
    return {"title": {"text": text, "standoff": 10}}


def _ticks(names: Sequence[str], start: float, step: int) -> dict:
    if not names:
        return {"showticklabels": False}
    return {
        "tickvals": [start + i * step - 0.5 for i in range(len(names))],
        "ticktext": list(names),
        "automargin": True,
    }
