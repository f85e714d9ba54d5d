"""Bar charts of the weights of one query."""

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float, Int

from attnviz.base.formatting import distinct_tokens, visible
from attnviz.base.language import _
from attnviz.figures.chart_spec import About, Chart, PlainSpec, PointsSpec
from attnviz.figures.sentences import label, label_lines
from attnviz.figures.themes import ACCENT, light_figure

MOST_KEYS = 32  # keys that fit side by side with their names
NUMBERED = 18  # bars that have room for their numbers
LARGE_FONT, LEAST_FONT = 16, 10  # pixels of letters
BEFORE, AFTER, NEGATIVE = "#868e96", "#1c7ed6", ACCENT  # seen on both themes


def bars(
    before: Float[np.ndarray, " keys"],
    after: Float[np.ndarray, " keys"],
    key_tokens: Sequence[str],
    names: tuple[str, str] = ("A", "B"),
    sentences: Sequence[str] = (),
) -> Chart[PlainSpec | PointsSpec]:
    """Draws two bars for each key, for the MOST_KEYS keys that changed most, in their order; NaN has no bar.

    With `sentences`, one for each of at most MOST_KEYS keys, the bars can be read.

    Example:
        >>> bars(np.array([0.5, 0.5]), np.array([1.0, np.nan]), ["a", "b"]).spec
        PlainSpec(rows=2, columns=2)
    """
    increase = np.abs(np.nan_to_num(after) - np.nan_to_num(before))
    positions = np.sort(np.argsort(-increase, kind="stable")[:MOST_KEYS])
    series = {
        name: (weights[positions], color)
        for name, weights, color in ((names[0], before, BEFORE), (names[1], after, AFTER))
    }
    figure = _grouped(series, words_at(positions, key_tokens), "attention")
    spec = PointsSpec(tuple(sentences), bars=True) if sentences else PlainSpec(rows=len(positions), columns=2)
    first, second = names
    about = About(
        label=_("{first} and {second}", first=first, second=second),
        description=". ".join(sentences) or _("Two bars for each key: {first}, {second}.", first=first, second=second),
        hint=_("Point at a bar to read it.") if sentences else "",
    )
    return Chart(figure, spec, about)


def words_at(positions: Int[np.ndarray, " positions"], tokens: Sequence[str]) -> list[str]:
    """Returns the words of bars; where not all have one, a word that is there several times has its position."""
    return distinct_tokens(positions.tolist(), tokens) if len(positions) < len(tokens) else list(tokens)


def share_bars(
    series: Mapping[str, Float[np.ndarray, " options"]], options: Sequence[str], truth: str = ""
) -> Chart[PointsSpec]:
    """Draws a bar for each option and each series of shares, which the legend names: one or two votes and the truth, if
    `truth` names one of the series.

    Of more than MOST_KEYS options those are drawn that have the largest shares, in their order.

    Example:
        >>> share_bars({"the room": np.array([0.25, 0.75])}, ["yes", "no"]).spec.sentences
        ('yes: the room 25 %', 'no: the room 75 %')
    """
    largest = np.max([*series.values()], axis=0)
    positions = np.sort(np.argsort(-largest, kind="stable")[:MOST_KEYS])
    votes = [name for name in series if name != truth]
    colors = dict(zip(votes, (BEFORE, AFTER)[-len(votes) :], strict=True)) | {truth: NEGATIVE}
    drawn = {name: (shares[positions], colors[name]) for name, shares in series.items()}
    sentences = tuple(
        f"{visible(options[i])}: "
        + ", ".join(f"{name} {shares[i]:.0%}".replace("%", " %") for name, shares in series.items())
        for i in positions
    )
    figure = _grouped(drawn, [options[i] for i in positions], _("share"))
    figure.update_layout(legend_font_size=LARGE_FONT, xaxis_tickfont_size=LARGE_FONT, yaxis_tickformat=".0%")
    figure.update_xaxes(ticktext=[label_lines(options[i]) for i in positions])
    if len(positions) * len(series) <= NUMBERED:  # the numbers stand on the bars, for the last row of a lecture hall
        for trace in figure.data:
            trace.text = [f"{share:.0%}" if share >= 0.005 else "" for share in trace.y]
        figure.update_traces(textposition="outside", textfont_size=LARGE_FONT, cliponaxis=False)
        figure.update_layout(yaxis={"visible": False, "range": [0, 1.15 * max(float(largest.max()), 0.01)]})
        figure.update_layout(uniformtext={"minsize": LEAST_FONT, "mode": "hide"})  # on a phone many bars have no room
    about = About(label=_("Answers of the room"), description=_("The share of the answers that each option has."))
    return Chart(figure, PointsSpec(sentences, bars=True), about)


def _grouped(
    series: Mapping[str, tuple[Float[np.ndarray, " keys"], str]], key_tokens: Sequence[str], title: str
) -> go.Figure:
    """Returns bars side by side for each key, with a legend."""
    traces = [_bars(heights.astype("f8"), color, name=name) for name, (heights, color) in series.items()]
    layout = _layout(key_tokens) | {
        "barmode": "group",
        "showlegend": len(series) > 1,
        "legend": {"orientation": "h", "x": 1, "xanchor": "right", "y": 1.02, "yanchor": "bottom"},
        "yaxis": {"automargin": True, "rangemode": "tozero", "title": {"text": title, "standoff": 14}},
    }
    return light_figure(traces, layout)


def _bars(heights: Float[np.ndarray, " keys"], color: str, **more: object) -> go.Bar:
    return go.Bar(x=np.arange(len(heights)), y=heights, marker={"color": color}, hoverinfo="skip", **more)


def _layout(key_tokens: Sequence[str]) -> dict[str, object]:
    """Returns a layout with an axis of keys."""
    return {
        "plot_bgcolor": "rgba(0,0,0,0)",
        "bargap": 0.3,
        "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
        "xaxis": {
            "tickvals": list(range(len(key_tokens))),
            "ticktext": [label(token) for token in key_tokens],
            "autotickangles": [0, 90],
            "automargin": True,
        },
    }
