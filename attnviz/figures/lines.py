"""The attention from the words of one sentence to those of another, as lines from left to right."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from attnviz.base.language import _
from attnviz.figures.chart_spec import About, Chart, PlainSpec
from attnviz.figures.maps import Array, as_map
from attnviz.figures.sentences import cell_sentence, label
from attnviz.figures.themes import ACCENT, light_figure
from attnviz.mechanism import Attention

QUERY, BEFORE, TRUE = ACCENT, "#868e96", "#1c7ed6"  # seen on both themes
UNSEEN = "rgba(0,0,0,0)"
LEAST_WEIGHT = 0.01  # a weight that no line can show
ACROSS = np.linspace(0, 1, 40)
BEND = ACROSS**2 * (3 - 2 * ACROSS)  # level where a line begins and where it ends


def lines(
    weights: Attention | Float[Array, "*heads queries keys"],
    query_tokens: Sequence[str] | None = None,
    key_tokens: Sequence[str] | None = None,
    *,
    row: int,
    true: Sequence[Sequence[int]] = (),
) -> Chart[PlainSpec]:
    """Draws lines from the query of `row` to the keys: the more weight, the thicker and less transparent.

    Each row before has its strongest line, in gray. The words of the rows after it are not visible, but have their
    place. Rings mark the keys in `true`, the true alignment, of each row so far.

    Example:
        >>> chart = lines(np.array([[0.9, 0.1], [0.2, 0.8]]), ["le", "chat"], ["the", "cat"], row=1, true=[[0], [1]])
        >>> chart.spec
        PlainSpec(rows=2, columns=2)
    """
    weights, query_tokens, key_tokens = as_map(weights, query_tokens, key_tokens)
    traces = []
    for i in range(row):
        best = int(np.nanargmax(weights[i]))
        traces.append(_line(i, best, BEFORE, 1 + 2 * float(weights[i, best]), 0.1 + 0.5 * float(weights[i, best])))
    for key in np.argsort(np.nan_to_num(weights[row]), kind="stable").tolist():
        if (weight := float(weights[row, key])) >= LEAST_WEIGHT:
            traces.append(_line(row, key, QUERY, 1.5 + 7 * weight, 0.15 + 0.85 * weight))
    now = set(true[row]) if row < len(true) else set()
    before = {key for keys in true[:row] for key in keys}
    traces += [
        {
            "type": "scatter", "x": [1] * len(marked), "y": sorted(marked), "yaxis": "y2", "mode": "markers",
            "opacity": opacity, "hoverinfo": "skip", "cliponaxis": False,
            "marker": {"symbol": "circle-open", "size": 15, "color": color, "line": {"width": 3}},
        }
        for marked, color, opacity in ((before, BEFORE, 0.6), (now, TRUE, 1.0))
    ]  # fmt: skip
    names = [_word(word, i, row) for i, word in enumerate(query_tokens)]
    keys = [f"<b>{label(word)}</b>" if i in now else label(word) for i, word in enumerate(key_tokens)]
    last = max(len(query_tokens), len(key_tokens)) - 0.5
    axis = {"range": [last, -0.5], "automargin": True, "showline": False, "ticklabelstandoff": 8, "fixedrange": True}
    layout = {
        "plot_bgcolor": "rgba(0,0,0,0)",
        "margin": {"l": 4, "r": 4, "t": 4, "b": 4},
        "xaxis": {"range": [-0.02, 1.04], "visible": False, "fixedrange": True},
        "yaxis": {**axis, "tickvals": list(range(len(names))), "ticktext": names},
        "yaxis2": {**axis, "tickvals": list(range(len(keys))), "ticktext": keys, "overlaying": "y", "side": "right"},
    }
    best = int(np.argmax(np.nan_to_num(weights[row])))
    most = None if np.isnan(weights[row, best]) else float(weights[row, best])
    about = About(label=_("Attention as lines"), description=cell_sentence(query_tokens[row], key_tokens[best], most))
    return Chart(light_figure(traces, layout), PlainSpec(rows=len(query_tokens), columns=len(key_tokens)), about)


def _line(query: int, key: int, color: str, width: float, opacity: float) -> dict[str, object]:
    return {
        "type": "scatter", "x": ACROSS, "y": query + (key - query) * BEND, "name": f"{query}-{key}", "mode": "lines",
        "opacity": opacity, "line": {"color": color, "width": width, "simplify": False}, "hoverinfo": "skip",
    }  # fmt: skip


def _word(word: str, i: int, row: int) -> str:
    """Returns a word of the left side; words after `row` are invisible but keep their place."""
    color = QUERY if i == row else UNSEEN if i > row else ""
    text = f"<b>{label(word)}</b>" if i == row else label(word)
    return f"<span style='color:{color}'>{text}</span>" if color else text
