"""The pinned query, chosen by a click on its row or from a menu."""

from collections.abc import Collection, Sequence

import streamlit as st

from attnviz.figures.sentences import ARROW
from attnviz.formatting import SPACE, visible

KEY = "pinned"  # of the menu, and in the link
NO_QUERY = "none"


def numbered(positions: Sequence[int], tokens: Sequence[str]) -> list[str]:
    """Returns unique names of tokens, such as “10 · it”."""
    return [f"{position} · {visible(token)[:30]}" for position, token in zip(positions, tokens, strict=True)]


def menu(names: Sequence[str], first: int | None) -> int | None:
    """Draws the menu of queries, which begins with row `first`; returns the pinned row."""
    options = [NO_QUERY, *names]
    take_older_names(KEY, names)
    if st.session_state.get(KEY, NO_QUERY) not in options:  # of another page, or another text
        st.session_state[KEY] = options[0 if first is None else first + 1]
    name = st.selectbox("Pinned query", options, 0 if first is None else first + 1, key=KEY, bind="query-params")
    return None if name == NO_QUERY else names.index(name)


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


def toggle(names: Sequence[str], row: int) -> None:
    """Pins a row, or unpins it."""
    st.session_state[KEY] = NO_QUERY if st.session_state[KEY] == names[row] else names[row]
