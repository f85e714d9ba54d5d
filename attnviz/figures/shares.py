"""Shares of a number: the number as a bar that splits, and the shares of words beside the weights of attention."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float

from attnviz.base.formatting import number, visible
from attnviz.base.language import _
from attnviz.figures.bars import AFTER, BEFORE, MOST_KEYS, NEGATIVE, words_at
from attnviz.figures.chart_spec import About, Chart, PlainSpec, PointsSpec
from attnviz.figures.sentences import label
from attnviz.figures.themes import light_figure

LEAST_BAR = 0.005  # of the highest one
GAP = 0.06  # between two rows, as a share of the height
ZERO_LINE = {"showticklabels": False, "zeroline": True, "zerolinecolor": "rgba(128,128,128,0.6)"}
MOST_WRITTEN = 18  # bars that have their number
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
        y=names,
        x=values,
        base=starts,
        orientation="h",
        hoverinfo="skip",
        marker={"color": [*(AFTER if value >= 0 else NEGATIVE for value in values[:-1]), BEFORE]},
    )
    written = [f"{name} <b>{signed(value)}</b> " for name, value in zip(names, values, strict=True)]
    ticks = {"tickvals": names, "ticktext": written, "tickfont": {"size": LETTERS}, "automargin": True}
    layout = {
        "plot_bgcolor": "rgba(0,0,0,0)",
        "bargap": 0.25,
        "margin": {"l": 8, "r": 8, "t": 4, "b": 4},
        "xaxis": ZERO_LINE,
        "yaxis": ticks | {"autorange": "reversed"},
    }
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
    rows = {_("share"): shares} if weights is None else {_("weight"): weights, _("share"): shares}
    return word_rows(rows, words).with_about(label=_("Shares of words"), name=_("shares"))


def word_rows(
    rows: Mapping[str, Float[np.ndarray, " words"]], words: Sequence[str], reverse: Collection[str] = ()
) -> Chart[PointsSpec]:
    """Draws numbers of each word as rows of bars, one below the other, by their names; the first are weights where
    there are several. In the rows of `reverse` negative bars have the color of positive ones. Of more than MOST_KEYS
    words those are drawn that have the largest bars, in their order; NaN has none."""
    known = {name: np.nan_to_num(values) for name, values in rows.items()}
    size = np.max([np.abs(values) / (np.abs(values).max() or 1) for values in known.values()], axis=0)
    positions = np.sort(np.argsort(-size, kind="stable")[:MOST_KEYS])
    chosen = words_at(positions, words)
    names = [*map(visible, chosen)]
    ticks = {"tickvals": list(range(len(positions))), "ticktext": [*map(label, chosen)], "tickfont": {"size": LETTERS}}
    layout: dict[str, Any] = {
        "plot_bgcolor": "rgba(0,0,0,0)",
        "bargap": 0.3,
        "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
        "xaxis": ticks | {"autotickangles": [0, 60, 90], "automargin": True},
    }
    traces, texts, count = list[go.Bar](), list[list[str]](), len(rows)
    for number_of_row, (name, values) in enumerate(known.items()):
        shown, is_weight = values[positions], count > 1 and number_of_row == 0
        write = number if is_weight else signed
        color = BEFORE if is_weight else [AFTER if (value < 0) == (name in reverse) else NEGATIVE for value in shown]
        axis = "y" if number_of_row == count - 1 else f"y{number_of_row + 2}"  # words are below the last
        traces.append(_bars(shown, color, _numbers(shown, write), axis))
        span = float(shown.max(initial=0.0) - shown.min(initial=0.0)) or 1.0
        ends = [float(shown.min(initial=0.0)) - 0.2 * span, float(shown.max(initial=0.0)) + 0.2 * span]
        below = count - 1 - number_of_row
        layout[axis.replace("y", "yaxis")] = ZERO_LINE | {
            "range": [0, 1.25] if is_weight else ends,
            "domain": [below / count, (below + 1) / count - GAP * (below < count - 1)],
            "title": {"text": name, "standoff": 6, "font": {"size": LETTERS}},
            "automargin": True,
        }
        texts.append(
            [
                f"{name} {write(value) if np.isfinite(rows[name][i]) else _('unknown')}"
                for value, i in zip(shown, positions, strict=True)
            ]
        )
    sentences = tuple(f"{word}: {', '.join(parts)}" for word, *parts in zip(names, *texts, strict=True))
    about = About(
        label=_("Words"), description=". ".join(sentences), name=_("words"), hint=_("Point at a bar to read it.")
    )
    return Chart(light_figure(traces, layout), PointsSpec(sentences, bars=True), about)


def signed(value: float) -> str:
    """Formats a share with its sign, and as `number` does.

    >>> signed(0.5), signed(-0.25), signed(0.00123), signed(0.0), signed(3e-7)
    ('+0.50', '−0.25', '+0.0012', '0.00', '< +0.0001')
    """
    bound, space, digits = number(float(value)).rpartition(" ")
    return bound + space + ("+" if value > 0 else "") + digits


def _numbers(values: Float[np.ndarray, " words"], write: Callable[[float], str]) -> list[str]:
    """Returns the numbers of bars; none of a bar that is too low to be seen."""
    least = LEAST_BAR * np.abs(values).max(initial=0.0)
    return [write(value) if abs(value) > least else "" for value in values.tolist()]


def _bars(heights: Float[np.ndarray, " words"], color: object, texts: Sequence[str], axis: str) -> go.Bar:
    x, y, style = np.arange(len(heights)), heights.astype("f8"), {"hoverinfo": "skip", "cliponaxis": False}
    written = [*texts] if len(heights) <= MOST_WRITTEN else None
    text = {"text": written, "textposition": "outside", "textfont": {"size": 12}}
    return go.Bar(x=x, y=y, yaxis=axis, marker={"color": color}, **text, **style)


def for_and_against(word: str) -> tuple[str, str]:
    """Returns labels for the ends of a scale of shares: against a word, and for it; empty without a word."""
    return (_("against"), _("for “{word}”", word=label(word))) if word else ("", "")
