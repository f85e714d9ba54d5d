"""What Models shows."""

from collections.abc import Callable
from dataclasses import replace

from attnviz.language import _
from attnviz.lessons.checks import Quantities
from attnviz.page.page_view import PageView
from attnviz.state.models import AGGREGATION, OVERVIEW, WHAT_IF, ModelsState
from attnviz.views.explore import pinned_quantities
from attnviz.views.head_aggregate import aggregate_map
from attnviz.views.intervened_example import IntervenedExample
from attnviz.views.selected_maps import HeadMap, map_panel, selected_map
from attnviz.views.text_probabilities import text_probabilities

Titled = list[tuple[str, HeadMap]]


def models(state: ModelsState) -> PageView:
    """Returns the maps of the open tab: of the selected head, as trained and changed, or of several heads as one; on
    the first tab the quantities of the pinned query, and of What if those of a decoder's text. Raises
    ValueError if one cannot be computed."""
    maps, row = TABS.get(state.inspect, _selected)(state), state.pinned if state.inspect == OVERVIEW else None
    quantities: Quantities = {}
    if row is not None:
        quantities = pinned_quantities(state.selection, maps[0][1], row)
    elif state.inspect == WHAT_IF and (text := text_probabilities(_intervened(state))):
        quantities = text.quantities
    panels = tuple(map_panel(head_map, title, row) for title, head_map in maps)
    return PageView(panels, quantities, row is not None and state.predict, state.colors)


def _selected(state: ModelsState) -> Titled:
    return [(state.selection.title, selected_map(state.selection))]


def _aggregated(state: ModelsState) -> Titled:
    head_map = aggregate_map(state.selection, state.stack, state.aggregated_heads, state.aggregation)
    return [(head_map.title, head_map)]


def _changed(state: ModelsState) -> Titled:
    trained = state.selection
    example = _intervened(state)
    sides = (_("As trained"), trained), (_("Changed"), replace(trained, source=example, layers=example.layers()))
    return [(f"{side}: {selection.title}", selected_map(selection)) for side, selection in sides]


def _intervened(state: ModelsState) -> IntervenedExample:
    return IntervenedExample.under(state.intervention, state.source)


TABS: dict[str, Callable[[ModelsState], Titled]] = {
    AGGREGATION: _aggregated,
    WHAT_IF: _changed,
}
