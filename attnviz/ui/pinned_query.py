"""The pinned query, chosen by a click on its row or from a menu."""

from collections.abc import Collection, Sequence

import streamlit as st

from attnviz.figures.sentences import ARROW
from attnviz.formatting import SPACE, visible
from attnviz.language import N_, _, option_name
from attnviz.ui.menus import chosen_option, names_of

KEY = "pinned"  # of the menu, and in the link
NO_QUERY = N_("none")
MOST_NAMES = 1000  # in a menu, all of which go to the browser


def numbered(positions: Sequence[int], tokens: Sequence[str]) -> list[str]:
    """Returns unique names of tokens, such as “10 · it”."""
    return [f"{position} · {visible(token)[:30]}" for position, token in zip(positions, tokens, strict=True)]


def menu(names: Sequence[str], first: int | None) -> int | None:
    """Draws the menu of queries, which begins with row `first`; returns the pinned row.

    Of many queries it has those around the pinned one, and the first.
    """
    begin = NO_QUERY if first is None else names[first]
    take_older_names(KEY, names)
    rows = {name: row for row, name in enumerate(names)}
    if st.session_state.get(KEY, NO_QUERY) not in {NO_QUERY, *rows}:  # of another page, or another text
        st.session_state[KEY] = begin
    options = [NO_QUERY, *names]
    if len(names) > MOST_NAMES:
        pinned = chosen_option(KEY, [NO_QUERY], begin, query_name)
        middle = rows.get(pinned, first or 0)
        around = range(max(0, middle - MOST_NAMES // 2), min(len(names), middle + MOST_NAMES // 2))
        options = [NO_QUERY, *(names[row] for row in sorted({*around, *(() if first is None else (first,))}))]
        if pinned in rows:
            st.session_state[KEY] = pinned  # the widget would lose it where its options change
    name = st.selectbox(
        _("Pinned query"),
        options,
        options.index(begin),
        key=KEY,
        bind="query-params",
        format_func=names_of(KEY, options, query_name),
    )
    return None if name == NO_QUERY else rows[name]


def take_older_names(key: str, names: Collection[str], several: bool = False) -> None:
    """Sets a widget to the tokens of an older link, whose names had no signs of spaces and of pieces of words, and
    one word for a row of a decoder."""
    if key in st.session_state or all(one in names for one in st.query_params.get_all(key)):
        return
    current = {older: name for name in names for older in (*_words_of(name), _unmarked(name))}
    updated = [current[bare] for one in st.query_params.get_all(key) if (bare := _unmarked(one)) in current]
    if updated:
        st.session_state[key] = updated if several else updated[0]


def _unmarked(name: str) -> tuple[str, str]:
    position, _, token = name.partition(" · ")
    return position, token.strip(f"{SPACE}▁#").partition("·")[0]


def _words_of(name: str) -> list[tuple[str, str]]:
    """Returns the older names of a decoder's row: what goes in, or what comes out."""
    position, _, words = name.partition(" · ")
    return [_unmarked(f"{position} · {word}") for word in words.split(ARROW)]


def query_name(option: str, code: str | None = None) -> str:
    """Returns the name of a query in the menu; tokens are no words of the interface."""
    return option_name(option, code) if option == NO_QUERY else option


def toggle(names: Sequence[str], row: int) -> None:
    """Pins a row, or unpins it."""
    st.session_state[KEY] = NO_QUERY if st.session_state[KEY] == names[row] else names[row]
