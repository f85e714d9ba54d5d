"""Heads as points, one metric against another."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float, Int

from attnviz.figures.chart_spec import Chart, PointsSpec
from attnviz.figures.maps import Array, as_array
from attnviz.figures.mosaic import ACCENT
from attnviz.figures.themes import light_figure

# From the first group to the last: steps of one lightness to the next, seen on both themes.
GROUPS = ("#4356c4", "#8a52c4", "#c8509f", "#e7696b", "#ee8f47", "#e5b73b")
SHAPES = {"circle": "●", "square": "■", "diamond": "◆", "triangle-up": "▲"}  # and how they are written
EDGE = "rgba(128,128,128,0.9)"
PADDING = 0.06  # of what an axis spans, beyond its last point


def scatter(
    x: Float[Array, " points"],
    y: Float[Array, " points"],
    names: Sequence[str],
    groups: Int[Array, " points"],
    chosen: Sequence[int] = (),
    *,
    titles: tuple[str, str] = ("", ""),
    group: str = "layer",
    kinds: Sequence[int] = (),
    aspect: float | None = None,
) -> Chart[PointsSpec]:
    """Draws a point for each head, with its two metrics as x and y, in the color of its group; NaN has no point.

    `names` are the sentences of the points. The `chosen` points have a ring. `titles` are those of the axes. `kinds`
    are numbers that choose the shape of a point from SHAPES. The picture is at most `aspect` times as high as wide.

    Example:
        >>> x, y = np.array([0.1, 0.9]), np.array([1.0, 2.0])
        >>> scatter(x, y, ["head 0", "head 1"], groups=np.array([0, 1])).spec.sentences
        ('head 0', 'head 1')
    """
    x, y, groups = as_array(x), as_array(y), as_array(groups)
    last = int(groups.max(initial=0))
    colorbar = {
        "orientation": "h", "x": 1, "xanchor": "right", "y": 1, "yanchor": "bottom", "len": 0.4, "thickness": 8,
        "outlinewidth": 0, "tickfont": {"size": 12}, "xpad": 0, "ypad": 0, "tick0": 0, "dtick": max(1, -(-last // 6)),
        "title": {"text": group, "side": "top", "font": {"size": 12}},
    }  # fmt: skip
    marker = {
        "size": 13,
        "opacity": 0.85,
        "color": groups.astype("f8"),
        "colorscale": [(i / (len(GROUPS) - 1), color) for i, color in enumerate(GROUPS)],
        "cmin": 0,
        "cmax": max(1, last),
        "symbol": [list(SHAPES)[kind % len(SHAPES)] for kind in kinds] or "circle",
        "line": {"color": EDGE, "width": 1},
        "showscale": last > 0,
        "colorbar": colorbar,
    }
    figure = light_figure(
        go.Scatter(
            x=x.astype("f8"), y=y.astype("f8"), mode="markers", marker=marker, hoverinfo="skip", cliponaxis=False
        )
    )
    selected = list(chosen)
    figure.add_scatter(
        x=x[selected].astype("f8"), y=y[selected].astype("f8"), mode="markers", hoverinfo="skip", cliponaxis=False,
        marker={"symbol": "circle-open", "size": 20, "color": ACCENT, "line": {"width": 3}},
    )  # fmt: skip
    figure.update_layout(
        plot_bgcolor="rgba(0,0,0,0)",
        margin={"l": 8, "r": 8, "t": 56, "b": 8},
        dragmode=False,
        hovermode=False,
        showlegend=False,
    )
    grid = {"automargin": True, "showgrid": True, "gridcolor": "rgba(128,128,128,0.18)", "nticks": 7}
    figure.update_xaxes(range=_range(x), title={"text": titles[0], "standoff": 8}, **grid)
    figure.update_yaxes(range=_range(y), title={"text": titles[1], "standoff": 8}, **grid)
    return Chart(figure, PointsSpec(tuple(names), aspect=aspect))


def _range(values: np.ndarray) -> list[float]:
    """Returns the range of an axis from the smallest to the largest value, with padding."""
    real = values[np.isfinite(values)]
    low, high = (float(real.min()), float(real.max())) if len(real) else (0.0, 1.0)
    padding = PADDING * (high - low) or 0.5
    return [low - padding, high + padding]
