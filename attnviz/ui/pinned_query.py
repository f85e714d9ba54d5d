"""The pinned query, chosen by a click on its row or from a menu."""

from collections.abc import Callable, Sequence
from typing import Any

import streamlit as st

from attnviz.state.explore import ExploreState
from attnviz.state.head_state import NO_QUERY, query_name
from attnviz.state.selection import Selection
from attnviz.ui.field_widgets import draw
from attnviz.ui.menus import chosen_option
from attnviz.ui.session_values import read_widget, write_widget

KEY = ExploreState.pinned.parameter
MOST_NAMES = 1000  # in a menu; all are sent to the browser


def menu(selection: Selection) -> int | None:
    """Draws the menu of queries; returns the pinned row of the selection. Of many queries the menu has those around the
    pinned one, and the first."""
    names = selection.query_names

    def short_menu(options: Sequence[str], default: str, required: bool, **more: Any) -> str:
        pinned = chosen_option(KEY, [NO_QUERY], default, query_name)
        middle = names.index(pinned) if pinned in names else selection.first_row or 0
        few = {NO_QUERY, default, *names[max(0, middle - MOST_NAMES // 2) : middle + MOST_NAMES // 2]}
        shown = [name for name in options if name in few]
        if pinned in names:
            pin_query(pinned)  # the widget would lose it where its options change
        return st.selectbox(options=shown, index=shown.index(default), **more)

    return draw(ExploreState.pinned, selection, short_menu if len(names) > MOST_NAMES else None)


def toggler(selection: Selection) -> Callable[[int, int], None]:
    """Returns the callback of a click on a map, which pins the query of a row, or unpins it."""
    return lambda row, _column: toggle(selection.query_names, row)


def pin_query(name: str) -> None:
    """Pins the query of a name; call it before the menu is drawn in a run."""
    write_widget(KEY, name)


def toggle(names: Sequence[str], row: int) -> None:
    """Pins a row, or unpins it."""
    pin_query(NO_QUERY if read_widget(KEY) == names[row] else names[row])
