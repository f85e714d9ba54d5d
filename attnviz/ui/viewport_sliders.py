"""The viewport of a long map, from two sliders that follow zooms of the map, and what its colors show."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import streamlit as st

from attnviz.figures.downsampled_map import CellColors
from attnviz.state.long_map_state import LongMapState
from attnviz.state.selection import Selection
from attnviz.state.viewport import WHOLE, Viewport, is_long
from attnviz.ui import token_finder
from attnviz.ui.chart import Cells
from attnviz.ui.field_widgets import draw
from attnviz.ui.session_values import write_widget
from attnviz.views.long_map_blocks import around
from attnviz.views.selected_maps import HeadMap

S = TypeVar("S", bound=Selection)
SLIDERS = LongMapState.part_of_queries.parameter, LongMapState.part_of_keys.parameter


def choose_viewport(selection: Selection) -> Viewport:
    """Draws the search and the sliders, if the map is long, and returns the viewport."""
    inputs = selection.inputs
    if not is_long(inputs):
        return WHOLE

    def go_to(query: int | None, key: int | None) -> None:
        move(
            None if query is None else around(query, inputs.queries), None if key is None else around(key, inputs.keys)
        )

    with st.sidebar:
        token_finder.show(inputs, go_to)
        rows, keys = draw(LongMapState.part_of_queries, selection), draw(LongMapState.part_of_keys, selection)
    return Viewport(*((first, last + 1) for first, last in (rows, keys)))


def choose(selection: S) -> S:
    """Draws the widgets of a long map; returns the selection with the part in view and what its colors show."""
    part = choose_viewport(selection)
    with st.sidebar:
        colors = CellColors(draw(LongMapState.quantity, selection), draw(LongMapState.scale, selection))
    return replace(selection, viewport=part, cell_colors=colors)


def move(queries: slice | None, keys: slice | None) -> None:
    """Sets the sliders to these positions; None leaves one as it is."""
    for key, part in zip(SLIDERS, (queries, keys), strict=True):
        if part is not None:
            write_widget(key, (part.start, part.stop - 1))


def on_zoom(head_map: HeadMap) -> Callable[[Cells | None], None] | None:
    """Returns the callback of a zoom, which moves the viewport of a long map; None for other maps."""
    if head_map.downsampled is None:
        return None
    return lambda cells: move(*head_map.positions_in(cells))
