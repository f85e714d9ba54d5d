"""The weights of one query as a curve over the positions of the keys."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float, Int

from attnviz.base.formatting import visible
from attnviz.base.language import _
from attnviz.figures.bands import shaded_range
from attnviz.figures.chart_spec import About, Chart, PointsSpec
from attnviz.figures.downsampled_map import Scale, scale_ticks
from attnviz.figures.maps import Array, as_array
from attnviz.figures.sentences import GIVES, cell_sentence
from attnviz.figures.themes import ACCENT, light_figure

COLOR = "#1c7ed6"  # seen on both themes
SHADE = "rgba(128,128,128,0.16)"


def query_curve(
    weights: Float[Array, " points"],
    positions: Int[Array, " points"],
    query: str,
    keys: Sequence[str],
    *,
    shaded: tuple[int, int] | None = None,
    scale: Scale = Scale.LINEAR,
    allowed: str = GIVES,
) -> Chart[PointsSpec]:
    """Draws the weights of one query at keys in ascending positions. NaN, a masked key, is a gap.

    `query` and `keys` are the names in the points' sentences, `allowed` the sentence of a key that is not masked. The
    largest weight has a ring, and the axis of weights a `scale`. The positions from the first to before the second of
    `shaded` have a background.

    Example:
        >>> query_curve(np.array([0.25, np.nan]), np.array([0, 7]), "it", ["animal", "road"]).spec.sentences
        ('it gives 0.25 of its attention to animal.', 'it may not look at road.')
    """
    x, values = as_array(positions).astype("f8"), as_array(weights).astype("f8")
    y, largest = values, float(np.nanmax(np.abs(values), initial=0.0)) or 1.0
    if scale is not Scale.LINEAR:
        y = scale.place(values, largest)
    line = {"color": COLOR, "width": 1.5, "simplify": False}
    figure = light_figure(
        go.Scatter(x=x, y=y, mode="lines+markers", line=line, marker={"color": COLOR, "size": 3}, hoverinfo="skip")
    )
    if np.isfinite(y).any():
        best = int(np.nanargmax(y))
        ring = {"symbol": "circle-open", "size": 13, "color": ACCENT, "line": {"width": 2}}
        figure.add_scatter(x=x[[best]], y=y[[best]], mode="markers", marker=ring, hoverinfo="skip", cliponaxis=False)
    if shaded is not None:
        figure.add_shape(shaded_range(shaded[0] - 0.5, shaded[1] - 0.5, SHADE))
    figure.update_layout(plot_bgcolor="rgba(0,0,0,0)", margin={"l": 8, "r": 14, "t": 12, "b": 8})
    first, last = (x[0], x[-1]) if len(x) else (0, 0)
    figure.update_xaxes(
        range=[first - 0.5, last + 0.5],
        nticks=7,
        tickformat="~s",
        tickangle=0,
        automargin=True,
        title={"text": _("key"), "standoff": 4},
    )
    figure.update_yaxes(rangemode="tozero", nticks=4, automargin=True, title={"text": _("weight"), "standoff": 14})
    if scale is not Scale.LINEAR:
        figure.update_yaxes(scale_ticks(scale, largest, -1.0 if (values < 0).any() else 0.0))
    sentences = (
        cell_sentence(query, key, None if np.isnan(weight) else float(weight), allowed)
        for key, weight in zip(keys, values, strict=True)
    )
    about = About(
        label=_("Weights of the pinned query"),
        description=_("The weights of {query} at {count} keys.", query=visible(query), count=len(keys)),
    )
    return Chart(figure, PointsSpec(tuple(sentences), bars=True), about)
