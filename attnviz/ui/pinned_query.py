"""The pinned query, chosen by a click on its row or from a menu."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from attnviz.state.explore import ExploreState
from attnviz.state.head_state import MOST_NAMES, NO_QUERY, query_name
from attnviz.state.selection import Selection
from attnviz.ui.field_widgets import draw
from attnviz.ui.menus import chosen_option
from attnviz.ui.session_values import read_widget, write_widget

KEY = ExploreState.pinned.parameter


@dataclass(frozen=True)
class _Queries:
    """The queries that the menu is made from, and the pinned one."""

    query_names: Sequence[str]
    first_row: int | None
    values: Mapping[str, int | None]


def menu(selection: Selection) -> int | None:
    """Draws the menu of queries; returns the pinned row of the selection."""
    names, first = selection.query_names, selection.first_row
    pinned = chosen_option(KEY, [NO_QUERY], NO_QUERY if first is None else names[first], query_name)
    row = names.index(pinned) if pinned in names else first
    if len(names) > MOST_NAMES and pinned in names:
        pin_query(pinned)  # the widget would lose it where its options change
    return draw(ExploreState.pinned, _Queries(names, first, {ExploreState.pinned.name: row}))


def toggler(selection: Selection) -> Callable[[int, int], None]:
    """Returns the callback of a click on a map, which pins the query of a row, or unpins it."""
    return lambda row, _column: toggle(selection.query_names, row)


def pin_query(name: str) -> None:
    """Pins the query of a name; call it before the menu is drawn in a run."""
    write_widget(KEY, name)


def toggle(names: Sequence[str], row: int) -> None:
    """Pins a row, or unpins it."""
    pin_query(NO_QUERY if read_widget(KEY) == names[row] else names[row])
