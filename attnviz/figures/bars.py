"""Bar charts of the weights of one query."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float

from attnviz.figures.chart_spec import Chart, PlainSpec, PointsSpec
from attnviz.figures.sentences import label
from attnviz.figures.themes import light_figure

MOST = 32  # keys that fit side by side with their names
BEFORE, AFTER, NEGATIVE = "#868e96", "#1c7ed6", "#e8590c"  # seen on both themes


def bars(
    before: Float[np.ndarray, " keys"],
    after: Float[np.ndarray, " keys"],
    key_tokens: Sequence[str],
    names: tuple[str, str] = ("A", "B"),
    sentences: Sequence[str] = (),
) -> Chart[PlainSpec | PointsSpec]:
    """Draws two bars for each key, for the MOST keys that changed most, in their order; NaN has no bar.

    With `sentences`, one for each of at most MOST keys, the bars can be read.

    Example:
        >>> bars(np.array([0.5, 0.5]), np.array([1.0, np.nan]), ["a", "b"]).spec
        PlainSpec(rows=2, columns=2)
    """
    increase = np.abs(np.nan_to_num(after) - np.nan_to_num(before))
    positions = np.sort(np.argsort(-increase, kind="stable")[:MOST])
    figure = _axes([key_tokens[i] for i in positions])
    for name, weights, color in ((names[0], before, BEFORE), (names[1], after, AFTER)):
        heights = weights[positions].astype("f8")
        figure.add_bar(x=np.arange(len(positions)), y=heights, name=name, marker={"color": color}, hoverinfo="skip")
    figure.update_layout(
        legend={"orientation": "h", "x": 1, "xanchor": "right", "y": 1.02, "yanchor": "bottom"},
    )
    figure.update_yaxes(rangemode="tozero", title={"text": "attention", "standoff": 14})
    spec = PointsSpec(tuple(sentences), bars=True) if sentences else PlainSpec(rows=len(positions), columns=2)
    return Chart(figure, spec)


def row_bars(
    weights: Float[np.ndarray, " keys"], key_tokens: Sequence[str], *, lowest: float = 0.0, highest: float = 1.0
) -> Chart[PlainSpec]:
    """Draws the weights of one query, on an axis from `lowest` to `highest`. Negative weights have another color.

    Example:
        >>> row_bars(np.array([0.9, 0.1]), ["a", "b"]).spec
        PlainSpec(rows=2, columns=1)
    """
    figure = _axes(key_tokens)
    heights = weights.astype("f8")
    for negative, color in ((False, AFTER), (True, NEGATIVE)):
        signed = np.where((heights < 0) == negative, heights, np.nan)
        figure.add_bar(x=np.arange(len(heights)), y=signed, marker={"color": color}, hoverinfo="skip", showlegend=False)
    figure.update_layout(barmode="overlay")
    figure.update_yaxes(range=[lowest, highest], zeroline=True, zerolinecolor="rgba(128,128,128,0.6)", nticks=4)
    return Chart(figure, PlainSpec(rows=len(heights), columns=1))


def _axes(key_tokens: Sequence[str]) -> go.Figure:
    """Returns an empty figure with an axis of keys."""
    figure = light_figure()
    figure.update_layout(
        plot_bgcolor="rgba(0,0,0,0)",
        barmode="group",
        bargap=0.3,
        margin={"l": 8, "r": 8, "t": 8, "b": 8},
        dragmode=False,
        hovermode=False,
    )
    figure.update_xaxes(
        tickvals=list(range(len(key_tokens))),
        ticktext=[label(token) for token in key_tokens],
        autotickangles=[0, 90],
        automargin=True,
    )
    figure.update_yaxes(automargin=True)
    return figure
