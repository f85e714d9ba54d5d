"""Shares over a row of numbers, a line for each of a few series."""

from collections.abc import Mapping, Sequence

import numpy as np

from attnviz.base.formatting import fixed
from attnviz.base.language import _
from attnviz.figures.chart_spec import About, Chart, PlainSpec
from attnviz.figures.themes import light_figure

COLORS = ("#1c7ed6", "#ae3ec9", "#868e96", "#a8834a")  # seen on both themes
SYMBOLS = ("circle", "square", "circle-open", "square-open")


def share_lines(places: Sequence[str], series: Mapping[str, Sequence[float]], title: str) -> Chart[PlainSpec]:
    """Draws shares, which may be below 0 or above 1, at some places that stand equally far apart; `title` is that of
    their axis.

    Example:
        >>> share_lines(["1", "2"], {"kept": [0.2, 1.1], "random": [0.0, 0.1]}, "heads").spec
        PlainSpec(rows=2, columns=2)
    """
    figure = light_figure()
    style = {"mode": "lines+markers", "hovertemplate": "%{x}: %{y:.0%}", "cliponaxis": False}
    for (name, shares), color, symbol in zip(series.items(), COLORS, SYMBOLS, strict=False):
        line, marker = {"color": color, "width": 3}, {"color": color, "size": 9, "symbol": symbol}
        figure.add_scatter(x=[*places], y=np.asarray(shares, "f8"), name=name, line=line, marker=marker, **style)
    figure.update_layout(
        plot_bgcolor="rgba(0,0,0,0)",
        hovermode="closest",
        showlegend=True,
        legend={"orientation": "h", "x": 0, "xanchor": "left", "y": 1.04, "yanchor": "bottom"},
        margin={"l": 8, "r": 14, "t": 8, "b": 8},
    )
    figure.update_xaxes(type="category", tickangle=0, automargin=True, title={"text": title, "standoff": 4})
    figure.update_yaxes(tickformat=".0%", automargin=True, zeroline=True, nticks=6)
    for height in (0.0, 1.0):
        figure.add_hline(height, line={"color": "rgba(134, 142, 150, 0.6)", "width": 1, "dash": "dot"})
    sentences = (
        _("{name}: {shares}", name=name, shares=", ".join(
            f"{place}: {fixed(100 * share, 0)}%"
            for place, share in zip(places, shares, strict=True)
        ))
        for name, shares in series.items()
    )  # fmt: skip
    about = About(label=title, description=". ".join(sentences), hint=_("Point at a line to read it."))
    return Chart(figure, PlainSpec(len(series), len(places)), about)
