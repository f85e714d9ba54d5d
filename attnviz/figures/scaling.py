"""The effect of dividing by √d, over the width d of the vectors."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from attnviz.base.formatting import number
from attnviz.base.language import _
from attnviz.figures.bands import shaded_range
from attnviz.figures.chart_spec import About, Chart, PlainSpec
from attnviz.figures.themes import ACCENT, light_figure

NAMES = ("plain", "÷ √d")
PLAIN, SCALED = ACCENT, "#1c7ed6"  # seen on both themes, and told apart by a color-blind eye
THEORY, MARKED = "#868e96", "rgba(134, 142, 150, 0.25)"


def scaling(
    widths: Sequence[int],
    measured: Float[np.ndarray, "2 widths"],
    marked: int,
    *,
    theory: Float[np.ndarray, "lines widths"] | None = None,
    dashes: str = "theory",
    logarithmic: bool = False,
) -> Chart[PlainSpec]:
    """Draws two measured lines over the width, without the division and with it, and a `theory` as dashed lines.

    The width that is `marked` has a gray band behind it. Widths double, and have equal distances on the axis.

    Example:
        >>> scaling([2, 4], np.array([[2.0, 4.0], [1.0, 1.0]]), marked=4).spec
        PlainSpec(rows=2, columns=2)
    """
    places = np.arange(len(widths))
    figure, style = light_figure(), {"x": places, "hoverinfo": "skip"}
    dashed = {"mode": "lines", "name": dashes, "line": {"color": THEORY, "width": 2, "dash": "dash"}}
    for i, values in enumerate(theory if theory is not None else ()):
        figure.add_scatter(y=values.astype("f8"), showlegend=i == 0, **dashed, **style)
    for name, values, color, symbol in zip(NAMES, measured, (PLAIN, SCALED), ("circle", "square"), strict=True):
        line, marker = {"color": color, "width": 2}, {"color": color, "size": 9, "symbol": symbol}
        figure.add_scatter(y=values.astype("f8"), mode="lines+markers", name=name, line=line, marker=marker, **style)
    position = list(widths).index(marked)
    figure.update_layout(
        plot_bgcolor="rgba(0,0,0,0)",
        showlegend=True,
        shapes=[shaded_range(position - 0.35, position + 0.35, MARKED)],
        legend={"orientation": "h", "x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom"},
        margin={"l": 8, "r": 8, "t": 8, "b": 8},
    )
    figure.update_xaxes(
        tickvals=places.tolist(),
        ticktext=[str(width) for width in widths],
        title={"text": "d", "standoff": 4},
        automargin=True,
        range=[-0.6, len(widths) - 0.4],
        tickangle=0,
    )
    if logarithmic:
        figure.update_yaxes(type="log", dtick=1, automargin=True)
    else:
        figure.update_yaxes(rangemode="tozero", automargin=True, nticks=5)
    (plain_first, plain_last), (divided_first, divided_last) = (
        [number(float(line[i])) for i in (0, -1)] for line in measured
    )
    about = About(
        label=_("Against the width d"),
        description=_(
            "At d = {first}, {last}: plain {plain_first}, {plain_last}; divided by √d {divided_first}, {divided_last}.",
            first=widths[0],
            last=widths[-1],
            plain_first=plain_first,
            plain_last=plain_last,
            divided_first=divided_first,
            divided_last=divided_last,
        ),
    )
    return Chart(figure, PlainSpec(rows=2, columns=len(widths)), about)
