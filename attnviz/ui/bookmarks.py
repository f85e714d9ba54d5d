"""Bookmarks of parts of a long map, which are in the link."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import streamlit as st

from attnviz.inputs import Inputs
from attnviz.language import _
from attnviz.ui import link_state, pinned_query
from attnviz.ui.markdown import plain

KEY = "bookmarks"  # of the hidden field, and in the link
NAME = "bookmark-name"  # of the field for the next one
MOST, LONGEST = 8, 24  # bookmarks, and characters of a name
BETWEEN = "~"  # bookmarks; not in a name
ENTRY = re.compile(r"([0-9]{1,9})-([0-9]{1,9})\.([0-9]{1,9})-([0-9]{1,9})\.([0-9]{0,9})\.(.+)", re.DOTALL)


@dataclass(frozen=True)
class Bookmark:
    """A part of a map with its name: the first and last query and key, and the pinned query if there is one."""

    name: str
    queries: tuple[int, int]
    keys: tuple[int, int]
    pinned: int | None = None

    def __str__(self) -> str:
        spans = (f"{first}-{last}" for first, last in (self.queries, self.keys))
        return ".".join((*spans, "" if self.pinned is None else str(self.pinned), self.name))

    def fits(self, inputs: Inputs) -> bool:
        """Returns whether these inputs have the part and the query."""
        return self.queries[1] < inputs.queries > (self.pinned or 0) and self.keys[1] < inputs.keys


def parse_bookmarks(text: str) -> list[Bookmark]:
    """Returns the bookmarks of a link. Raises ValueError for any other text.

    Example:
        >>> parse_bookmarks("0-511.0-511.7.the needle~400-911.0-63..end")[1]
        Bookmark(name='end', queries=(400, 911), keys=(0, 63), pinned=None)
    """
    entries = [ENTRY.fullmatch(entry) for entry in text.split(BETWEEN)] if text else []
    marks = []
    for entry in entries:
        if entry is None or bookmark_name(entry[6]) != entry[6]:
            raise ValueError(_("This is no list of bookmarks."))
        first_query, last_query, first_key, last_key = map(int, entry.groups()[:4])
        if first_query > last_query or first_key > last_key:
            raise ValueError(_("A bookmark ends before it begins."))
        pinned = int(entry[5]) if entry[5] else None
        marks.append(Bookmark(entry[6], (first_query, last_query), (first_key, last_key), pinned))
    if len(marks) > MOST or len({mark.name for mark in marks}) < len(marks):
        raise ValueError(_("There are more than {most} bookmarks, or two of one name.").format(most=MOST))
    return marks


def bookmark_name(typed: str) -> str:
    """Returns a name as a link can hold it: short, printable, without the separator.

    Example:
        >>> bookmark_name(" the~needle\\n")
        'the needle'
    """
    printable = "".join(c if c.isprintable() and c != BETWEEN else " " for c in typed)
    return " ".join(printable.split())[:LONGEST].strip()


def show(
    inputs: Inputs, queries: tuple[int, int], keys: tuple[int, int], on_open: Callable[[slice, slice], None]
) -> None:
    """Draws the menu of bookmarks. `queries` and `keys` are the first and last in view; `on_open` is called with the
    positions of the bookmark that is opened, and its query is pinned."""
    marks = _marks()

    def add() -> None:
        name = bookmark_name(st.session_state[NAME]) or f"{queries[0]}–{queries[1]}"
        _keep([mark for mark in marks if mark.name != name] + [Bookmark(name, queries, keys, _pinned())])
        st.session_state[NAME] = ""

    def open_mark(mark: Bookmark) -> None:
        on_open(slice(mark.queries[0], mark.queries[1] + 1), slice(mark.keys[0], mark.keys[1] + 1))
        if mark.pinned is not None:
            name = pinned_query.numbered([mark.pinned], [inputs.query_tokens[mark.pinned]])[0]
            st.session_state[pinned_query.KEY] = name

    with st.popover(
        _("Bookmarks ({count})").format(count=len(marks)) if marks else _("Bookmarks"),
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
                    help=_("Queries {span}, keys {span_2}").format(span=_span(mark.queries), span_2=_span(mark.keys)),
                )
                st.button(
                    "",
                    icon=":material/delete:",
                    key=f"bookmark-{i}-remove",
                    help=plain(_("Remove {name}").format(name=mark.name)),
                    on_click=_keep,
                    args=([other for other in marks if other is not mark],),
                    type="tertiary",
                )
        is_full = len(marks) >= MOST
        st.text_input(_("Name"), key=NAME, max_chars=LONGEST, placeholder=_span(queries), disabled=is_full)
        st.button(_("Bookmark this part"), key="bookmark-add", on_click=add, disabled=is_full)
        if is_full:
            st.caption(_("A link holds at most {most}. Remove one first.").format(most=MOST))


def _marks() -> list[Bookmark]:
    """Returns the bookmarks of the link; a text that is no list of them is refused."""
    try:
        return parse_bookmarks(link_state.link_value(KEY))
    except ValueError:
        link_state.refuse(KEY)
        return []


def _keep(marks: Sequence[Bookmark]) -> None:
    link_state.set_link_value(KEY, BETWEEN.join(map(str, marks)))


def _pinned() -> int | None:
    position = str(st.session_state.get(pinned_query.KEY, "")).partition(" · ")[0]
    return int(position) if position.isdecimal() else None


def _span(ends: tuple[int, int]) -> str:
    return f"{ends[0]:,}–{ends[1]:,}"
