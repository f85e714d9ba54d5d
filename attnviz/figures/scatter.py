"""Heads as points, one metric against another."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float, Int

from attnviz.base.language import _
from attnviz.figures.chart_spec import About, Chart, PointsSpec
from attnviz.figures.colorbar import PLACE, colorbar
from attnviz.figures.maps import Array, as_array
from attnviz.figures.themes import ACCENT, COLOR_AXES, light_figure

# From the first group to the last: steps of one lightness to the next, seen on both themes.
GROUPS = ("#4356c4", "#8a52c4", "#c8509f", "#e7696b", "#ee8f47", "#e5b73b")
SHAPES = {"circle": "●", "square": "■", "diamond": "◆", "triangle-up": "▲"}  # and how they are written
EDGE = "rgba(128,128,128,0.9)"
PADDING = 0.06  # of what an axis spans, beyond its last point
FENCE = 1.5  # interquartile ranges from the quartiles to an outlier (Tukey 1977)
MOST_LABELS, APART = 8, (0.12, 0.06)  # outliers with a label, and the shares of both axes that keep labels apart
LABEL, OFFSET = (0.06, 0.05), (0.012, 0.025)  # the size of a label and its distance from its point, as such shares
SIDES = {"top center": (0, 1), "middle right": (1, 0), "middle left": (-1, 0), "bottom center": (0, -1)}


def scatter(
    x: Float[Array, " points"],
    y: Float[Array, " points"],
    names: Sequence[str],
    groups: Int[Array, " points"] | Float[Array, " points"],
    chosen: Sequence[int] = (),
    *,
    titles: tuple[str, str] = ("", ""),
    group: str = "layer",
    kinds: Sequence[int] = (),
    labels: Sequence[str] = (),
    aspect: float | None = None,
    scale: Literal["groups", "weights", "changes"] = "groups",
    reverse: bool = False,
    ends: tuple[str, str] = ("", ""),
) -> Chart[PointsSpec]:
    """Draws a point for each head, with its two metrics as x and y, in the color of its group; NaN has no point.

    With another `scale`, `groups` are numbers in the colors of weights, from 0 to 1, or of changes, around 0, whose
    `reverse` and `ends` are those of `head_grid`.
    `names` are the sentences of the points. The `chosen` points have a ring. `titles` are those of the axes. `kinds`
    are numbers that choose the shape of a point from SHAPES. Of the `labels`, one for each point, those of the chosen
    ones and of the farthest outliers are written. The picture is at most `aspect` times as high as wide.

    Example:
        >>> x, y = np.array([0.1, 0.9]), np.array([1.0, 2.0])
        >>> scatter(x, y, ["head 0", "head 1"], groups=np.array([0, 1])).spec.sentences
        ('head 0', 'head 1')
    """
    x, y, groups = as_array(x), as_array(y), as_array(groups)
    last = int(groups.max(initial=0)) if scale == "groups" else 0
    letters = {"size": 12}
    bar = {"len": 0.4, "title": {"text": group, "side": "top", "font": letters}}
    ticks = {"tickfont": letters, "tick0": 0, "dtick": max(1, -(-last // 6))}
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
        "colorbar": PLACE | bar | ticks | {"thickness": 8, "outlinewidth": 0, "xpad": 0, "ypad": 0},
    }
    layout: dict[str, Any] = {}
    if scale != "groups":
        largest = 1.0 if scale == "weights" else float(np.nanmax(np.abs(groups), initial=0)) or 1.0
        lowest, axis = 0.0 if scale == "weights" else -largest, COLOR_AXES[scale]
        bar = colorbar(lowest, largest, ends) | bar
        layout = {axis: {"cmin": lowest, "cmax": largest, "colorbar": bar, "reversescale": reverse}}
        marker = {"coloraxis": axis} | {key: marker[key] for key in ("size", "color", "symbol", "line")}
    all_x, all_y, style = x.astype("f8"), y.astype("f8"), {"hoverinfo": "skip", "cliponaxis": False}
    figure = light_figure(go.Scatter(x=all_x, y=all_y, mode="markers", marker=marker, **style), layout)
    selected = list(chosen)
    ring = {"symbol": "circle-open", "size": 20, "color": ACCENT, "line": {"width": 3}}
    figure.add_scatter(x=all_x[selected], y=all_y[selected], mode="markers", marker=ring, **style)
    places = np.stack([all_x, all_y], 1)
    places = (places - [_range(x)[0], _range(y)[0]]) / [np.ptp(_range(x)), np.ptp(_range(y))]  # shares of both axes
    named = _labeled(x, y, places, selected) if labels else []
    text = {"text": [labels[i] for i in named], "textposition": _sides(places, named), "textfont": letters}
    # Markers that are not seen keep labels off those that are.
    hidden = {"size": [ring["size"] if i in selected else marker["size"] for i in named], "opacity": 0}
    figure.add_scatter(x=all_x[named], y=all_y[named], mode="markers+text", marker=hidden, **text, **style)
    figure.update_layout(plot_bgcolor="rgba(0,0,0,0)", margin={"l": 8, "r": 8, "t": 56, "b": 8})
    grid = {"automargin": True, "showgrid": True, "gridcolor": "rgba(128,128,128,0.18)", "nticks": 7}
    figure.update_xaxes(range=_range(x), title={"text": titles[0], "standoff": 8}, **grid)
    figure.update_yaxes(range=_range(y), title={"text": titles[1], "standoff": 8}, **grid)
    about = About(
        label=_("Heads by what they do"),
        description=_("{count} heads, each a point: {x} across, {y} up.", count=len(x), x=titles[0], y=titles[1]),
        hint=_("Each point is a head."),
    )
    return Chart(figure, PointsSpec(tuple(names), aspect=aspect), about)


def outliers(values: Float[np.ndarray, " points"]) -> Float[np.ndarray, " points"]:
    """Returns how far each value lies beyond the fences of a box plot, as a share of the range of all values; 0 within
    them, and where a value is NaN.

    Example:
        >>> outliers(np.array([1.0, 2.0, 3.0, 4.0, 11.0])).tolist()
        [0.0, 0.0, 0.0, 0.0, 0.4]
    """
    real = values[np.isfinite(values)]
    if len(real) == 0 or real.min() == real.max():
        return np.zeros(len(values))
    low, high = np.quantile(real, (0.25, 0.75))
    fence = FENCE * (high - low)
    beyond = np.maximum(low - fence - values, values - high - fence).clip(min=0)
    return np.nan_to_num(beyond / (real.max() - real.min()))


def _labeled(x: np.ndarray, y: np.ndarray, places: np.ndarray, chosen: Sequence[int]) -> list[int]:
    """Returns the points that have a label: the chosen ones and the farthest outliers, without those too close to a
    chosen or a farther one."""
    is_shown = np.isfinite(places).all(1)
    beyond = np.where(is_shown, np.maximum(outliers(x), outliers(y)), 0)
    named = [i for i in chosen if is_shown[i]]
    most = len(named) + MOST_LABELS
    for i in np.argsort(-beyond, kind="stable")[: np.count_nonzero(beyond)].tolist():
        near = (abs(places[named] - places[i]) < APART).all(1).any()
        if not near and len(named) < most:
            named.append(i)
    return named


def _sides(places: np.ndarray, named: Sequence[int]) -> list[str]:
    """Returns on which side of its point each label has the fewest points and labels below it, within the axes."""
    half, offset = np.array(LABEL) / 2, np.array(OFFSET)
    sides: list[str] = []
    labels = np.zeros((0, 2))  # their middles
    for i in named:
        middles = places[i] + (half + offset) * [*SIDES.values()]
        is_outside = ((middles < half) | (middles > 1 - half)).any(1)
        hidden = (abs(np.delete(places, i, 0) - middles[:, None]) < half + offset).all(-1).sum(1)
        hidden += (abs(labels - middles[:, None]) < LABEL).all(-1).sum(1)
        best = int(np.lexsort([hidden, is_outside])[0])
        sides.append([*SIDES][best])
        labels = np.concatenate([labels, middles[[best]]])
    return sides


def _range(values: np.ndarray) -> list[float]:
    """Returns the range of an axis from the smallest to the largest value, with padding."""
    real = values[np.isfinite(values)]
    low, high = (float(real.min()), float(real.max())) if len(real) else (0.0, 1.0)
    padding = PADDING * (high - low) or 0.5
    return [low - padding, high + padding]
