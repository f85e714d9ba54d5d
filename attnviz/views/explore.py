"""What Explore shows."""

from dataclasses import replace

from attnviz.lessons.checks import Quantities, row_quantities
from attnviz.page.page_view import PageView
from attnviz.state.explore import ExploreState
from attnviz.state.selection import Selection
from attnviz.views.selected_maps import HeadMap, map_panel, row_weights, selected_map


def explore(state: ExploreState) -> PageView:
    """Returns the map of the selected head, and the quantities of the pinned query."""
    selection = replace(state.selection, viewport=state.viewport, cell_colors=state.cell_colors)
    head_map, row = selected_map(selection), state.pinned
    quantities = {} if row is None else pinned_quantities(selection, head_map, row)
    return PageView((map_panel(head_map, selection.title, row),), quantities, state.predict, state.colors)


def pinned_quantities(selection: Selection, head_map: HeadMap, row: int) -> Quantities:
    """Returns the quantities of one of the shown queries, at all keys that are shown."""
    tokens = [head_map.inputs.key_tokens[i] for i in selection.keys]  # of all, where a part is in view
    return row_quantities(tokens, row_weights(selection, head_map, row).numpy())
