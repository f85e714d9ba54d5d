"""Keys and a query as arrows in the plane, over the results of all other queries."""

import base64
import io
import math
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float, Int, UInt8
from PIL import Image

from attnviz.base.formatting import significant, visible
from attnviz.base.language import _
from attnviz.figures.chart_spec import About, Chart, Drag, PlaneSpec
from attnviz.figures.colorbar import colorbar
from attnviz.figures.sentences import label
from attnviz.figures.themes import ACCENT, COLOR_AXES, light_figure

# Of the keys, in their order: apart for color-blind eyes too, from each other and from the query.
COLORS = ("#374dc6", "#d8b349", "#3a997d", "#8b3b74", "#2bccb4", "#aa9cf7", "#9372c8", "#b71c0e")
QUERY, SLOPE, LINE = ACCENT, "#868e96", "rgba(128,128,128,0.85)"
TIE = -1
FAINT, STRONG = 0.1, 0.6  # how much of the paper a key's color covers where it has its fair share, and where it has all
UPSAMPLING = 4  # pixels of the picture to a point of the grid
HEAD = (0.15, 0.06)  # length and half the width of an arrow's head
STEP = 0.1  # to which a dragged query is rounded
Colored = Literal["key", "value"]


def plane_background(
    axis: Float[np.ndarray, " n"],
    scores: Float[np.ndarray, "n n keys"],
    weights: Float[np.ndarray, "n n keys"],
    result: Float[np.ndarray, "n n"],
    values: Float[np.ndarray, " keys"],
    *,
    colored_by: Colored = "key",
) -> go.Figure:
    """Draws the results of a grid of queries along `axis`, with y along rows.

    Colored by "key", each point has the color of the key with the largest weight, stronger the larger the weight, with
    lines between the regions. Colored by "value", it has the color of the `result`, on a scale over the `values`; NaN
    is a point without a result.
    """
    traces, layout = [], dict[str, object]()
    if colored_by == "key":
        line = {"color": LINE, "width": 1.5}
        path = _segments_path(*boundaries(winners(weights), scores, axis))
        layout["images"] = [_image(tints(scores, weights), _half_width(axis))]
        layout["shapes"] = [{"type": "path", "path": path, "line": line}]
    else:
        smooth = "fast" if np.isfinite(result).all() else False
        color = {"coloraxis": COLOR_AXES["weights"], "opacity": 0.65}
        traces.append(go.Heatmap(z=result.astype("f4"), x=axis, y=axis, zsmooth=smooth, hoverinfo="skip", **color))
    low, high = float(values.min()), float(values.max())
    span = {"cmin": low, "cmax": high} if low < high else {"cmin": low - 0.5, "cmax": high + 0.5}
    side = _half_width(axis)
    lines = {"range": [-side, side], "zeroline": True, "zerolinecolor": LINE, "dtick": 1, "constrain": "domain"}
    layout |= {
        "plot_bgcolor": "rgba(0,0,0,0)",
        "margin": {"l": 26, "r": 10, "t": 14 if colored_by == "key" else 40, "b": 26},
        COLOR_AXES["weights"]: {**span, "colorbar": colorbar(span["cmin"], span["cmax"])},
        "xaxis": lines,
        "yaxis": {"scaleanchor": "x", **lines},
    }
    return light_figure(traces, layout)


def plane(
    background: go.Figure,
    keys: Float[np.ndarray, "keys 2"],
    words: Sequence[str],
    values: Float[np.ndarray, " keys"],
    weights: Float[np.ndarray, " keys"],
    query: tuple[float, float],
    *,
    projection: Float[np.ndarray, "2 2"] | None = None,
    slope: tuple[float, float] = (0.0, 0.0),
) -> Chart[PlaneSpec]:
    """Draws arrows from the origin to the keys and the query over a `background`; the width of a key's arrow is its
    weight.

    A dotted line leads from the query to an arrow that is the query times the matrix of the `projection`, which is
    what is compared with the keys; an arrow at the query's tip has the direction of `slope`. The query can be dragged.

    Example:
        >>> keys, weights = np.eye(2), np.array([0.9, 0.1])
        >>> scores, result = np.zeros((2, 2, 2)), np.zeros((2, 2))
        >>> background = plane_background(np.array([-1.0, 1.0]), scores, scores, result, values=np.ones(2))
        >>> plane(background, keys, ["cat", "hen"], np.ones(2), weights, query=(1.0, 0.5)).spec.drag.start
        (1.0, 0.5)
    """
    colors = [COLORS[i % len(COLORS)] for i in range(len(keys))]
    shapes = list(background.layout.shapes)
    for key, color, weight in zip(keys.tolist(), colors, weights.tolist(), strict=True):
        shapes += [_arrow(key, color, 2 + 5 * weight), _dot(key, 5.0, color, fill=color)]
    names = [
        _label(key, f"<b>{label(word)}</b> {significant(value)}")
        for key, word, value in zip(keys.tolist(), words, values.tolist(), strict=True)
    ]
    first = len(shapes)
    shapes += [_arrow(query, QUERY, 5.0), _dot(query, 12.0, QUERY)]
    query_label = {"text": "<b>query</b>", "font": {"color": QUERY}, **_label_position(query, keys)}
    moving_labels = [{"x": query[0], "y": query[1], "showarrow": False, **query_label}]
    if projection is not None:
        x, y = (np.array(query) @ projection).tolist()
        path = _segments_path([query[0], x], [query[1], y])
        dotted = {"type": "path", "path": path, "line": {"color": QUERY, "width": 2.5, "dash": "dot"}}
        shapes += [_arrow((x, y), QUERY, 2.5), dotted]
        font = {"font": {"color": QUERY}, "showarrow": False}
        middle = {
            "x": (query[0] + x) / 2,
            "y": (query[1] + y) / 2,
            "text": "<b>× W</b>",
            "xanchor": "left",
            "xshift": 4,
        }
        moving_labels += [middle | font, {"x": x, "y": y, "text": "<b>qW</b>", **font, **_label_position((x, y), keys)}]
    steep = math.hypot(*slope)
    if steep:
        length = 0.3 + 0.4 * min(1.0, steep / (float(np.ptp(values)) or 1))
        shapes.append(_arrow([length * along / steep for along in slope], SLOPE, 4.0, start=query))
    drag = Drag(
        start=query,
        limits=background.layout.xaxis.range,
        step=STEP,
        color=QUERY,
        shapes=tuple(range(first, len(shapes))),
        annotations=tuple(range(len(names), len(names) + len(moving_labels))),
        sentence=_("The query is at ({x}, {y})."),
        matrix=projection,
    )
    layout = background.layout.to_plotly_json() | {
        "template": None,
        "shapes": shapes,
        "annotations": [*names, *moving_labels],
    }
    places = zip((_("The query"), *words), (query, *keys.tolist()), strict=True)
    about = About(
        label=_("Keys and query in the plane"),
        description=" ".join(
            _("{name} is at ({x}, {y}).", name=visible(name), x=significant(x), y=significant(y))
            for name, (x, y) in places
        ),
        name=_("lookup"),
        hint=_("Drag the query, or move it with the arrow keys."),
    )
    return Chart(light_figure(background.data, layout), PlaneSpec(len(keys), drag), about)


def winners(weights: Float[np.ndarray, "*grid keys"]) -> Int[np.ndarray, "*grid"]:
    """Returns the key with the largest weight of each query; TIE if all weights are equal.

    Example:
        >>> winners(np.array([[0.7, 0.3], [0.5, 0.5]]))
        array([ 0, -1])
    """
    return np.where(np.ptp(weights, axis=-1) > 0, weights.argmax(-1), TIE)


def tints(
    scores: Float[np.ndarray, "n n keys"], weights: Float[np.ndarray, "n n keys"]
) -> UInt8[np.ndarray, "pixels pixels 4"]:
    """Returns the colors of the winners with their opacity, UPSAMPLING times finer than the grid; the first row is the
    lowest."""
    size = UPSAMPLING * len(scores)

    def upsampled(stage: np.ndarray) -> np.ndarray:
        """Returns each key's values, interpolated linearly between the points of the grid."""
        layers = (Image.fromarray(layer.astype("f4")) for layer in np.moveaxis(stage, -1, 0))
        return np.stack([np.asarray(layer.resize((size, size), Image.Resampling.BILINEAR)) for layer in layers])

    colors = np.array([[int(color[i : i + 2], 16) for i in (1, 3, 5)] for color in COLORS], dtype="u1")
    fair = 1 / weights.shape[-1]
    [most] = upsampled(weights.max(-1, keepdims=True))
    cover = FAINT + (STRONG - FAINT) * ((most - fair) / (1 - fair)).clip(0, 1)
    [is_won] = upsampled((winners(weights) != TIE)[..., None])
    alpha = (255 * np.where(is_won > 0.5, cover, 0)).round().astype("u1")
    return np.concatenate([colors[upsampled(scores).argmax(0) % len(COLORS)], alpha[..., None]], axis=-1)


def boundaries(
    winner: Int[np.ndarray, "n n"], scores: Float[np.ndarray, "n n keys"], axis: Float[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, " points"], Float[np.ndarray, " points"]]:
    """Returns the boundaries between the regions of the winners, as x and y of the ends of line segments, in pairs.

    The scores of neighboring winners are interpolated linearly, and are equal at a boundary; within a cell, segments
    meet in the middle of the points where they enter it.
    """

    def crossing(first: tuple[slice, ...], second: tuple[slice, ...]) -> np.ndarray:
        """Returns the fraction of the way from the first point to the second at which the winner changes; NaN if it
        does not."""
        a, b = winner[first], winner[second]
        before, after = (
            np.take_along_axis(scores[corner], a[..., None], -1) - np.take_along_axis(scores[corner], b[..., None], -1)
            for corner in (first, second)
        )
        apart = (before - after)[..., 0]
        is_boundary = (a != b) & (a != TIE) & (b != TIE) & (apart != 0)
        return np.where(is_boundary, before[..., 0] / np.where(apart, apart, 1), np.nan)

    every, low, high = slice(None), slice(None, -1), slice(1, None)
    step = axis[1] - axis[0]
    across, up = crossing((every, low), (every, high)), crossing((low, every), (high, every))
    left, bottom = np.meshgrid(axis[:-1], axis[:-1])
    # Of each cell the points where its sides are crossed: the lower, the upper, the left and the right one.
    left_side, lower_side = 0 * up[:, :-1], 0 * across[:-1]  # NaN on the sides that are not crossed
    x = np.stack([across[:-1] * step, across[1:] * step, left_side, 0 * up[:, 1:] + step]) + left
    y = np.stack([lower_side, 0 * across[1:] + step, up[:, :-1] * step, up[:, 1:] * step]) + bottom
    lines = []
    for place in (x, y):
        entered = np.isfinite(place)
        middle = np.where(entered, place, 0).sum(0) / np.maximum(entered.sum(0), 1)
        lines.append(np.stack([place, np.broadcast_to(middle, place.shape)], axis=-1)[entered].ravel())
    return lines[0], lines[1]


def _half_width(axis: Float[np.ndarray, " n"]) -> float:
    """Returns half the width of the plane: half a cell beyond the last point of its grid."""
    return round(float(axis[-1] + (axis[1] - axis[0]) / 2), 9)


def _image(pixels: UInt8[np.ndarray, "pixels pixels 4"], side: float) -> dict:
    """Returns pixels as an image that fills the plane, because browsers draw it faster than a heatmap."""
    file = io.BytesIO()
    Image.fromarray(pixels[::-1]).save(file, "PNG", compress_level=1)
    source = "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
    place = {"xref": "x", "yref": "y", "x": -side, "y": side, "sizex": 2 * side, "sizey": 2 * side}
    return {"source": source, "sizing": "stretch", "layer": "below", **place}


def _segments_path(x: Iterable[float], y: Iterable[float]) -> str:
    """Returns line segments as one SVG path, instead of a trace for each."""
    ends = [f"{along:.4g},{up:.4g}" for along, up in zip(x, y, strict=True)]
    return "".join(f"M{start}L{end}" for start, end in zip(ends[::2], ends[1::2], strict=True)) or "M0,0"


def _arrow(by: Sequence[float], color: str, width: float, start: Sequence[float] = (0.0, 0.0)) -> dict:
    """Returns an arrow of this vector from its start; wider arrows have larger heads."""
    length = math.hypot(*by)
    along = np.array(by) / (length or 1)
    long, wide = (side * (0.75 + 0.08 * width) for side in HEAD)
    tip = np.add(start, by)
    neck = tip - min(long, length) * along
    aside = wide * np.array([-along[1], along[0]])
    corners = [f"{x:.4f},{y:.4f}" for x, y in (start, neck, tip, neck + aside, neck - aside)]
    path = "M{}L{}M{}L{}L{}Z".format(*corners)
    return {"type": "path", "path": path, "line": {"color": color, "width": width}, "fillcolor": color}


def _dot(center: Sequence[float], radius: float, color: str, fill: str = "rgba(0,0,0,0)") -> dict:
    place = {"xanchor": center[0], "yanchor": center[1], "xsizemode": "pixel", "ysizemode": "pixel"}
    size = {"x0": -radius, "x1": radius, "y0": -radius, "y1": radius}
    return {"type": "circle", **place, **size, "line": {"color": color, "width": 3}, "fillcolor": fill}


def _label(tip: Sequence[float], text: str) -> dict:
    """Returns text above a tip, or below one that points down; it is aligned inward near the edge."""
    side = {"yanchor": "bottom", "yshift": 10} if tip[1] >= 0 else {"yanchor": "top", "yshift": -10}
    inward = "center" if abs(tip[0]) < 1.3 else "right" if tip[0] > 0 else "left"
    return {"x": tip[0], "y": tip[1], "text": text, "showarrow": False, "xanchor": inward, **side}


def _label_position(tip: Sequence[float], keys: Float[np.ndarray, "keys 2"]) -> dict:
    """Returns the position next to a tip that is farthest from the keys and their labels."""
    sides = {
        (0.0, -0.25): {"yanchor": "top", "yshift": -14},
        (0.0, 0.25): {"yanchor": "bottom", "yshift": 14},
        (-0.4, 0.0): {"xanchor": "right", "xshift": -16},
        (0.4, 0.0): {"xanchor": "left", "xshift": 16},
    }
    names = keys + np.where(keys[:, 1:] >= 0, 0.15, -0.15) * [0, 1]
    occupied = np.concatenate([keys, names, [[0, 0]]])

    def clearance(side: tuple[float, float]) -> float:
        place = np.add(tip, side)
        outside = np.abs(place).max() > 1.8  # of 2: near the edge it would be cut off
        return -1.0 if outside else float(np.hypot(*(occupied - place).T).min())

    return sides[max(sides, key=clearance)]
