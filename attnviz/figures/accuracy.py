"""Accuracy by the length of a sentence, of models that are compared."""

from collections.abc import Mapping, Sequence

import numpy as np

from attnviz.base.formatting import percent
from attnviz.base.language import _
from attnviz.figures.bands import marked_place
from attnviz.figures.chart_spec import About, Chart, PlainSpec
from attnviz.figures.themes import light_figure

COLORS, SYMBOLS = ("#1c7ed6", "#ae3ec9"), ("circle", "square")  # seen on both themes, told apart by a color-blind eye


def accuracy(
    lengths: Sequence[int], shares: Mapping[str, Sequence[float]], *, marked: int | None = None
) -> Chart[PlainSpec]:
    """Draws the share of what is right over the length of sentences, a line for each of two models.

    The length that is `marked` has a dotted line.

    Example:
        >>> accuracy([4, 5], {"attention": [1.0, 1.0], "fixed vector": [1.0, 0.8]}, marked=5).spec
        PlainSpec(rows=2, columns=2)
    """
    figure = light_figure()
    places, style = list(lengths), {"mode": "lines+markers", "hovertemplate": _("%{x} words: %{y:.0%}")}
    for (name, shown), color, symbol in zip(shares.items(), COLORS, SYMBOLS, strict=True):
        line, marker = {"color": color, "width": 3}, {"color": color, "size": 9, "symbol": symbol}
        y = np.asarray(shown, dtype="f8")
        figure.add_scatter(x=places, y=y, name=name, line=line, marker=marker, cliponaxis=False, **style)
    if marked is not None and lengths[0] <= marked <= lengths[-1]:
        figure.add_shape(marked_place(float(marked)))
    figure.update_layout(
        plot_bgcolor="rgba(0,0,0,0)",
        hovermode="closest",
        showlegend=True,
        legend={"orientation": "h", "x": 0, "xanchor": "left", "y": 1.04, "yanchor": "bottom"},
        margin={"l": 8, "r": 14, "t": 8, "b": 8},
    )
    figure.update_xaxes(
        tickvals=places,
        range=[lengths[0] - 0.5, lengths[-1] + 0.5],
        tickangle=0,
        automargin=True,
        title={"text": _("words of the English sentence"), "standoff": 4},
    )
    figure.update_yaxes(range=[-0.04, 1.06], tickvals=[0, 0.25, 0.5, 0.75, 1], tickformat=".0%", automargin=True)
    ends = (
        _(
            "{name}: {first} at {shortest} words, {last} at {longest}",
            name=name,
            first=percent(shown[0], 2),
            shortest=lengths[0],
            last=percent(shown[-1], 2),
            longest=lengths[-1],
        )
        for name, shown in shares.items()
    )
    about = About(label=_("Accuracy by sentence length"), description=f"{'; '.join(ends)}.")
    return Chart(figure, PlainSpec(rows=len(shares), columns=len(lengths)), about)
