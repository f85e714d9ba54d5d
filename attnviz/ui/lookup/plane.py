"""The plane with the keys and the query, which can be dragged."""

import numpy as np
import plotly.graph_objects as go

from attnviz.figures.plane import plane, plane_background
from attnviz.formatting import significant
from attnviz.language import _
from attnviz.lessons.lookup import SOFTNESS, look_up_grid, lookup_gradient
from attnviz.normalizers import Softmax
from attnviz.scores import General
from attnviz.ui import cache
from attnviz.ui.chart import chart
from attnviz.ui.lookup.controls import LookupSelection, move_query

HEIGHT = 520


def show(selection: LookupSelection) -> None:
    """Draws the plane."""
    dictionary, query, mechanism = selection.dictionary, selection.query, selection.mechanism
    background = cache.once(lambda: _background(selection), "plane", dictionary, mechanism, selection.colored_by)
    projection = None
    if isinstance(mechanism.score, General):
        projection = mechanism.score.matrix(2, 2).numpy()
    is_smooth = isinstance(SOFTNESS[selection.softness], Softmax)
    slope = lookup_gradient(dictionary, query, mechanism) if is_smooth else None
    points = [(_("The query"), *query), *((entry.word, entry.x, entry.y) for entry in dictionary.entries)]
    chart(
        plane(
            background,
            dictionary.keys.numpy(),
            dictionary.words,
            dictionary.values.numpy(),
            np.array(selection.result.weights),
            query,
            projection=projection,
            slope=slope or (0.0, 0.0),
        ),
        "plane",
        label=_("Keys and query in the plane. Arrow keys move the query."),
        name=_("lookup"),
        description=" ".join(
            _("{name} is at ({x}, {y}).").format(name=name, x=significant(x), y=significant(y)) for name, x, y in points
        ),
        height=HEIGHT,
        hint=_("Drag the query, or move it with the arrow keys."),
        on_drag=move_query,
    )


def _background(selection: LookupSelection) -> go.Figure:
    grid = look_up_grid(selection.dictionary, selection.mechanism)
    stages = (grid.axis, grid.scores, grid.weights, grid.result, selection.dictionary.values)
    return plane_background(*(stage.numpy() for stage in stages), colored_by=selection.colored_by)
