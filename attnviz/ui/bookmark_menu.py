"""The menu of bookmarks of parts of a long map."""

from collections.abc import Callable

import streamlit as st

from attnviz.formatting import numbered_tokens
from attnviz.inputs import MapAxes
from attnviz.language import _
from attnviz.state.bookmarks import LONGEST_NAME, MOST_BOOKMARKS, Bookmark, bookmark_name
from attnviz.state.long_map_state import LongMapState
from attnviz.ui import pinned_query
from attnviz.ui.field_widgets import draw_hidden_value
from attnviz.ui.markdown import plain
from attnviz.ui.session_values import read_widget, write_widget
from attnviz.ui.widget_values import set_field_value

KEY = LongMapState.bookmarks.parameter
NAME = "bookmark-name"  # of the field for the next one


def show(
    inputs: MapAxes, queries: tuple[int, int], keys: tuple[int, int], on_open: Callable[[slice, slice], None]
) -> None:
    """Draws the menu of bookmarks. `queries` and `keys` are the first and last in view; `on_open` is called with the
    positions of the bookmark that is opened, and its query is pinned."""
    marks = draw_hidden_value(LongMapState.bookmarks)

    def add() -> None:
        name = bookmark_name(read_widget(NAME, "")) or f"{queries[0]}–{queries[1]}"
        others = (mark for mark in marks if mark.name != name)
        set_field_value(LongMapState.bookmarks, (*others, Bookmark(name, queries, keys, _pinned())))
        write_widget(NAME, "")

    def open_mark(mark: Bookmark) -> None:
        on_open(slice(mark.queries[0], mark.queries[1] + 1), slice(mark.keys[0], mark.keys[1] + 1))
        if mark.pinned is not None:
            pinned_query.pin_query(numbered_tokens([mark.pinned], [inputs.query_tokens[mark.pinned]])[0])

    with st.popover(
        _("Bookmarks ({count})", count=len(marks)) if marks else _("Bookmarks"),
        icon=":material/bookmark:",
        width="stretch",
        key="marks",
    ):
        for i, mark in enumerate(marks):
            with st.container(horizontal=True, wrap=False):
                st.button(
                    plain(mark.name),
                    key=f"bookmark-{i}",
                    on_click=open_mark,
                    args=(mark,),
                    width="stretch",
                    disabled=not mark.fits(inputs),
                    help=_("Queries {queries}, keys {keys}", queries=_span(mark.queries), keys=_span(mark.keys)),
                )
                st.button(
                    "",
                    icon=":material/delete:",
                    key=f"bookmark-{i}-remove",
                    help=plain(_("Remove {name}", name=mark.name)),
                    on_click=set_field_value,
                    args=(LongMapState.bookmarks, tuple(other for other in marks if other is not mark)),
                    type="tertiary",
                )
        is_full = len(marks) >= MOST_BOOKMARKS
        st.text_input(_("Name"), key=NAME, max_chars=LONGEST_NAME, placeholder=_span(queries), disabled=is_full)
        st.button(_("Bookmark this part"), key="bookmark-add", on_click=add, disabled=is_full)
        if is_full:
            st.caption(_("A link holds at most {most}. Remove one first.", most=MOST_BOOKMARKS))


def _pinned() -> int | None:
    position = str(read_widget(pinned_query.KEY, "")).partition(" · ")[0]
    return int(position) if position.isdecimal() else None


def _span(ends: tuple[int, int]) -> str:
    return f"{ends[0]:,}–{ends[1]:,}"
