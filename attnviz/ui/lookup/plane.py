"""The plane with the keys and the query, which can be dragged."""

import numpy as np
import plotly.graph_objects as go

from attnviz.figures.plane import plane, plane_background
from attnviz.lookup.dictionary import SOFTNESS, look_up_grid, lookup_gradient
from attnviz.normalizers import Softmax
from attnviz.scores import General
from attnviz.state.lookup import LookupState
from attnviz.ui import cache
from attnviz.ui.chart import chart
from attnviz.ui.lookup.controls import move_query

HEIGHT = 520


def show(state: LookupState) -> None:
    """Draws the plane."""
    dictionary, query, mechanism = state.table, state.query, state.mechanism
    background = cache.once(lambda: _background(state), "plane", dictionary, mechanism, state.color)
    projection = None
    if isinstance(mechanism.score, General):
        projection = mechanism.score.matrix(2, 2).numpy()
    is_smooth = isinstance(SOFTNESS[state.softness], Softmax)
    slope = lookup_gradient(dictionary, query, mechanism) if is_smooth else None
    picture = plane(
        background,
        dictionary.keys.numpy(),
        dictionary.words,
        dictionary.values.numpy(),
        np.array(state.result.weights),
        query,
        projection=projection,
        slope=slope or (0.0, 0.0),
    )
    chart(picture, "plane", height=HEIGHT, on_drag=move_query)


def _background(state: LookupState) -> go.Figure:
    grid = look_up_grid(state.table, state.mechanism)
    stages = (grid.axis, grid.scores, grid.weights, grid.result, state.table.values)
    return plane_background(*(stage.numpy() for stage in stages), colored_by=state.color)
