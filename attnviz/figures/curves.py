"""Line charts of measurements over training steps."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from attnviz.base.formatting import grouped
from attnviz.base.language import _
from attnviz.figures.bands import marked_place
from attnviz.figures.chart_spec import About, Chart, PlainSpec
from attnviz.figures.maps import Array, as_array
from attnviz.figures.themes import ACCENT, light_figure

LINE, OTHERS = "#1c7ed6", "rgba(134, 142, 150, 0.45)"  # seen on both themes
TICKS = (0, 50, 200, 500, 1000, 2000, 4000, 8000)


def curves(
    steps: Sequence[int],
    values: Float[Array, "lines steps"],
    *,
    last: int,
    line: int = 0,
    marked: tuple[int, float] | None = None,
    share: bool = False,
) -> Chart[PlainSpec]:
    """Draws values over training steps, from 0 to `last`: the one numbered `line` in color, the others in gray.

    `marked` is a point, a step and a value. With `share` values are written as percent. The axis of steps has their
    square roots, because most happens early.

    Example:
        >>> curves([0, 100], np.array([[3.0, 1.5]]), last=100, marked=(100, 1.5)).spec
        PlainSpec(rows=1, columns=2)
    """
    values = as_array(values)
    figure, places = light_figure(), np.sqrt(steps)
    for i in sorted(range(len(values)), key=line.__eq__):
        color, width = (LINE, 3) if i == line else (OTHERS, 1.5)
        figure.add_scatter(
            x=places, y=values[i].astype("f8"), mode="lines", line={"color": color, "width": width}, hoverinfo="skip"
        )
    highest = 1.0 if share else float(values.max(initial=1.0))
    if marked is not None:
        x, value = float(np.sqrt(marked[0])), marked[1]
        figure.add_scatter(
            x=[x], y=[value], mode="markers", marker={"color": ACCENT, "size": 12}, cliponaxis=False, hoverinfo="skip"
        )
        figure.add_shape(marked_place(x))
    ticks = [tick for tick in TICKS if tick <= last]
    title = {"x": 0, "xref": "paper", "y": 1, "yref": "container", "yanchor": "top", "font": {"size": 18}}
    figure.update_layout(plot_bgcolor="rgba(0,0,0,0)", title=title, margin={"l": 8, "r": 20, "t": 30, "b": 8})
    figure.update_xaxes(
        range=[-0.02 * np.sqrt(last), 1.02 * np.sqrt(last)],
        tickangle=0,
        automargin=True,
        tickvals=np.sqrt(ticks).tolist(),
        ticktext=[f"{tick:,}" for tick in ticks],
    )
    figure.update_yaxes(
        range=[-0.04 * highest, 1.06 * highest], nticks=4, automargin=True, tickformat=".0%" if share else ""
    )
    about = About(
        label=_("Measurements over training"), description=_("{count} steps of training.", count=grouped(last))
    )
    return Chart(figure, PlainSpec(rows=len(values), columns=len(steps)), about)
