"""How often a number of many texts has which value."""

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float

from attnviz.base.formatting import fixed
from attnviz.base.language import _, plural
from attnviz.figures.bars import AFTER
from attnviz.figures.chart_spec import About, Chart, PointsSpec
from attnviz.figures.maps import Array, as_array
from attnviz.figures.themes import ACCENT, light_figure

MOST_BARS = 20
FEW = 5  # texts in the highest bar
LEAST_RANGE = 0.01
STEPS = (1, 2, 5)  # of bars, times a power of ten


def histogram(
    values: Float[Array, " texts"],
    title: str = "",
    *,
    marked: float | None = None,
) -> Chart[PointsSpec]:
    """Draws how many of the values lie between which numbers, in at most 20 bars; NaN is in none.

    `title` is that of the axis. The value that is `marked` has a line. Raises ValueError if there is no value.

    Example:
        >>> histogram(np.array([0.01, 0.02, 0.11])).spec.sentences[0]
        '0.01 to 0.02: 1 text'
    """
    values = as_array(values).astype("f8")
    values = values[np.isfinite(values)]
    if not len(values):
        raise ValueError("expected at least one number")
    step = _step(float(values.max() - values.min()))
    # A value on an edge is in the bar above it, also where the division is not exact.
    bars = np.floor(values / step + 1e-9).astype(int)
    first = int(bars.min())
    counts = np.bincount(bars - first)
    lefts = [round((first + i) * step, 12) for i in range(len(counts))]
    decimals = max(0, -int(np.floor(np.log10(step))))
    sentences = tuple(
        _("{low} to {high}: {texts}", low=fixed(left, decimals), high=fixed(left + step, decimals), texts=plural(
            "{count} text", "{count} texts", int(count), count=int(count)))
        for left, count in zip(lefts, counts, strict=True)
    )  # fmt: skip
    bar = go.Bar(
        x=[left + step / 2 for left in lefts], y=counts, width=0.94 * step, marker={"color": AFTER}, hoverinfo="skip"
    )
    figure = light_figure([bar], {"plot_bgcolor": "rgba(0,0,0,0)", "margin": {"l": 8, "r": 12, "t": 8, "b": 8}})
    if marked is not None:
        figure.add_vline(marked, line={"color": ACCENT, "width": 2, "dash": "dot"})
    figure.update_xaxes(
        title={"text": title, "standoff": 6}, automargin=True, range=[lefts[0], lefts[-1] + step], nticks=6
    )
    figure.update_yaxes(title={"text": _("texts"), "standoff": 10}, automargin=True, rangemode="tozero", nticks=5)
    if counts.max() <= FEW:  # for which the axis would have halves
        figure.update_yaxes(dtick=1)
    about = About(
        label=_("Distribution over the texts"),
        description=". ".join(sentence for sentence, count in zip(sentences, counts, strict=True) if count),
        hint=_("Point at a bar to read it."),
    )
    return Chart(figure, PointsSpec(sentences, bars=True), about)


def _step(range_of_values: float) -> float:
    """Returns the width of bars, such that there are at most MOST_BARS."""
    least = max(range_of_values, LEAST_RANGE) / (MOST_BARS - 1)
    power = 10.0 ** np.floor(np.log10(least))
    return next(float(step * power) for step in (*STEPS, 10) if step * power >= least)
