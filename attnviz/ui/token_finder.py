"""The search of a long text, which moves the viewport from match to match."""

from collections.abc import Callable, Sequence
from functools import lru_cache

import streamlit as st

from attnviz.analysis.token_search import find_phrase
from attnviz.formatting import grouped, quoted
from attnviz.inputs import Inputs
from attnviz.language import _, plural
from attnviz.ui import pinned_query
from attnviz.ui.markdown import plain

KEY = "find"  # and in the link
LONGEST = 100  # characters of a phrase
_LAST = "find at"  # in the session: the position of the match that was last gone to


def show(inputs: Inputs, on_match: Callable[[int | None, int | None], None]) -> None:
    """Draws the field and says how many matches there are. At a match `on_match` is called with the position of its
    query and of its key, None where the match is none of them; a query is pinned."""

    def go_on() -> None:
        queries, keys = _matches(inputs, st.session_state[KEY])
        if positions := queries or keys:
            last = st.session_state.get(_LAST, -1)
            position = next((one for one in positions if one > last), positions[0])
            st.session_state[_LAST] = position
            if queries:
                name = pinned_query.numbered([position], [inputs.query_tokens[position]])[0]
                st.session_state[pinned_query.KEY] = name
            on_match(position if queries else None, position if keys else None)

    def start() -> None:
        st.session_state[_LAST] = -1
        go_on()

    phrase = st.text_input(
        _("Find in the text"),
        key=KEY,
        bind="query-params",
        max_chars=LONGEST,
        placeholder=_("a word or a phrase"),
        on_change=start,
        help=_("Goes to the tokens with which the word or phrase begins, and pins the query there."),
    )
    if not phrase.strip():
        return
    queries, keys = _matches(inputs, phrase)
    positions = queries or keys
    if not positions:
        st.caption(plain(_("{phrase} is not in this text.").format(phrase=quoted(phrase))))
        return
    count, last = len(positions), st.session_state.get(_LAST, -1)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(_("Next"), key="find-next", icon=":material/arrow_downward:", on_click=go_on)
        matches = plural("{count} match", "{count} matches", count).format(count=grouped(count))
        st.caption(
            _("Match {index} of {count}").format(index=grouped(positions.index(last) + 1), count=grouped(count))
            if last in positions
            else matches
        )


def _matches(inputs: Inputs, phrase: str) -> tuple[Sequence[int], Sequence[int]]:
    """Returns the matches among the queries, and those among the keys if they are the same text or no query matches."""
    queries = _positions(inputs.query_tokens, phrase)
    if inputs.query_tokens == inputs.key_tokens:
        return queries, queries
    return queries, () if queries else _positions(inputs.key_tokens, phrase)


@lru_cache(maxsize=8)  # every run of the page asks again
def _positions(tokens: tuple[str, ...], phrase: str) -> tuple[int, ...]:
    return tuple(find_phrase(tokens, phrase))
