"""Shares of a number: the number as a bar that splits, and the shares of words beside the weights of attention."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float

from attnviz.figures.bars import AFTER, BEFORE, MOST_KEYS, NEGATIVE
from attnviz.figures.chart_spec import About, Chart, PlainSpec, PointsSpec
from attnviz.figures.sentences import label
from attnviz.figures.themes import light_figure
from attnviz.formatting import number, visible
from attnviz.language import _

LEAST_BAR = 0.005  # of the highest one
LETTERS = 15  # pixels: for the last row of a lecture hall


def split_bar(parts: Mapping[str, float], total: float) -> Chart[PlainSpec]:
    """Draws a number as the sum of its parts: a bar for each, from where the one before ended, and the whole.

    Example:
        >>> split_bar({"heads": 3.0, "MLPs": -1.0}, total=2.0).about.description
        'heads +3.00, MLPs −1.00, together +2.00.'
    """
    names, values = [*parts, _("together")], [*parts.values(), total]
    starts = [*np.cumsum([0.0, *parts.values()])[:-1], 0.0]
    bars = go.Bar(
        y=names, x=values, base=starts, orientation="h", hoverinfo="skip",
        marker={"color": [*(AFTER if value >= 0 else NEGATIVE for value in values[:-1]), BEFORE]},
    )  # fmt: skip
    layout = {
        "plot_bgcolor": "rgba(0,0,0,0)", "bargap": 0.25, "margin": {"l": 8, "r": 8, "t": 4, "b": 4},
        "xaxis": {"showticklabels": False, "zeroline": True, "zerolinecolor": "rgba(128,128,128,0.6)"},
        "yaxis": {
            "autorange": "reversed", "automargin": True, "tickfont": {"size": LETTERS}, "tickvals": names,
            "ticktext": [f"{name} <b>{signed(value)}</b> " for name, value in zip(names, values, strict=True)],
        },
    }  # fmt: skip
    words = ", ".join(f"{name} {signed(value)}" for name, value in zip(names, values, strict=True))
    about = About(label=_("The sum"), description=f"{words}.", name=_("sum"))
    return Chart(light_figure(bars, layout), PlainSpec(rows=len(names), columns=1), about)


def word_shares(
    shares: Float[np.ndarray, " words"], words: Sequence[str], weights: Float[np.ndarray, " words"] | None = None
) -> Chart[PointsSpec]:
    """Draws the share of each word as a bar, and above it the weight that it gets, where there are `weights`. Of more
    than MOST_KEYS words those are drawn that have the largest shares or weights, in their order.

    Example:
        >>> word_shares(np.array([0.5, -1.0]), ["a", "b"], np.array([0.9, 0.1])).spec.sentences
        ('a: weight 0.90, share +0.50', 'b: weight 0.10, share −1.00')
    """
    size = np.abs(shares) / (np.abs(shares).max() or 1)
    size = size if weights is None else np.maximum(size, weights)
    positions = np.sort(np.argsort(-size, kind="stable")[:MOST_KEYS])
    shown = shares[positions]
    names = [visible(words[i]) for i in positions]
    traces: list[go.Bar] = [
        _bars(shown, [AFTER if share >= 0 else NEGATIVE for share in shown], _numbers(shown, signed), "y")
    ]
    span = float(shown.max(initial=0.0) - shown.min(initial=0.0)) or 1.0
    below = [float(shown.min(initial=0.0)) - 0.2 * span, float(shown.max(initial=0.0)) + 0.2 * span]
    axis: dict[str, Any] = {
        "showticklabels": False,
        "zeroline": True,
        "zerolinecolor": "rgba(128,128,128,0.6)",
        "range": below,
    }
    title = {"standoff": 6, "font": {"size": LETTERS}}
    layout: dict[str, Any] = {
        "plot_bgcolor": "rgba(0,0,0,0)", "bargap": 0.3, "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
        "yaxis": axis | {"title": {"text": _("share")} | title, "automargin": True},
        "xaxis": {
            "tickvals": list(range(len(positions))), "ticktext": [label(words[i]) for i in positions],
            "tickfont": {"size": LETTERS}, "autotickangles": [0, 60, 90], "automargin": True, "anchor": "y",
        },
    }  # fmt: skip
    if weights is not None:
        traces.append(_bars(weights[positions], BEFORE, _numbers(weights[positions], number), "y2"))
        layout["yaxis"] |= {"domain": [0, 0.55]}
        layout["yaxis2"] = axis | {"domain": [0.63, 1], "range": [0, 1.25], "title": {"text": _("weight")} | title}
        layout["yaxis2"] |= {"automargin": True}
    sentences = tuple(
        _("{word}: share {share}", word=name, share=signed(share))
        if weights is None
        else _("{word}: weight {weight}, share {share}", word=name, weight=number(weights[i]), share=signed(share))
        for name, share, i in zip(names, shown, positions, strict=True)
    )
    about = About(
        label=_("Shares of words"), description=". ".join(sentences), name=_("shares"),
        hint=_("Point at a bar to read it."),
    )  # fmt: skip
    return Chart(light_figure(traces, layout), PointsSpec(sentences, bars=True), about)


def signed(value: float) -> str:
    """Formats a share with its sign, and as `number` does.

    >>> signed(0.5), signed(-0.25), signed(0.00123), signed(0.0)
    ('+0.50', '−0.25', '+0.0012', '0.00')
    """
    text = number(float(value))
    return f"+{text}" if value > 0 else text


def _numbers(values: Float[np.ndarray, " words"], write: Callable[[float], str]) -> list[str]:
    """Returns the numbers of bars; none of a bar that is too low to be seen."""
    least = LEAST_BAR * np.abs(values).max(initial=0.0)
    return [write(value) if abs(value) > least else "" for value in values.tolist()]


def _bars(heights: Float[np.ndarray, " words"], color: object, texts: Sequence[str], axis: str) -> go.Bar:
    return go.Bar(
        x=np.arange(len(heights)), y=heights.astype("f8"), yaxis=axis, marker={"color": color}, hoverinfo="skip",
        text=[*texts] if len(heights) <= 18 else None, textposition="outside", textfont={"size": 12}, cliponaxis=False,
    )  # fmt: skip
