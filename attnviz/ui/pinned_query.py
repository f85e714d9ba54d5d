"""The pinned query, chosen by a click on its row or from a menu."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from attnviz.state.explore import ExploreState
from attnviz.state.head_state import NO_QUERY, query_name
from attnviz.state.selection import Selection
from attnviz.ui.field_widgets import draw
from attnviz.ui.menus import chosen_option
from attnviz.ui.session_values import read_widget, write_widget

KEY = ExploreState.pinned.parameter
MOST_NAMES = 1000  # in a menu; all are sent to the browser


@dataclass(frozen=True)
class _Queries:
    """The queries that the menu has."""

    query_names: Sequence[str]
    first_row: int | None


def menu(selection: Selection) -> int | None:
    """Draws the menu of queries; returns the pinned row of the selection. Of many queries the menu has those around the
    pinned one, and the first."""
    names, first = selection.query_names, selection.first_row
    rows: Sequence[int] = range(len(names))
    if len(names) > MOST_NAMES:
        pinned = chosen_option(KEY, [NO_QUERY], NO_QUERY if first is None else names[first], query_name)
        middle = names.index(pinned) if pinned in names else first or 0
        around = range(max(0, middle - MOST_NAMES // 2), min(len(names), middle + MOST_NAMES // 2))
        rows = sorted({*around, *(() if first is None else (first,))})
        if pinned in names:
            pin_query(pinned)  # the widget would lose it where its options change
    opening = None if first is None else rows.index(first)
    row = draw(ExploreState.pinned, _Queries([names[row] for row in rows], opening))
    return None if row is None else rows[row]


def toggler(selection: Selection) -> Callable[[int, int], None]:
    """Returns the callback of a click on a map, which pins the query of a row, or unpins it."""
    return lambda row, _column: toggle(selection.query_names, row)


def pin_query(name: str) -> None:
    """Pins the query of a name; call it before the menu is drawn in a run."""
    write_widget(KEY, name)


def toggle(names: Sequence[str], row: int) -> None:
    """Pins a row, or unpins it."""
    pin_query(NO_QUERY if read_widget(KEY) == names[row] else names[row])
