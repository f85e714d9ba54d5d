"""What a page has computed, by name, for the checks of a lesson and the questions of a class."""

from collections.abc import Callable

import streamlit as st

from attnviz.lessons.checks import Quantities

_KEY, _QUERY = "quantities", "quantities query"


def publish(compute: Callable[[], Quantities], query: str = "") -> None:
    """Gives lessons and classes the quantities of this run, computed if they are asked for, and the name of the query
    that they are about."""
    st.session_state[_KEY], st.session_state[_QUERY] = compute, query


def collect() -> Quantities:
    """Computes the quantities of this run; none if the page has none."""
    compute: Callable[[], Quantities] | None = st.session_state.get(_KEY)
    return compute() if compute else {}


def query() -> str:
    """Returns the name of the query that the quantities of this run are about, or no text."""
    return str(st.session_state.get(_QUERY, ""))


def discard() -> None:
    """Drops what is published, and with it the arrays that it refers to."""
    for name in (_KEY, _QUERY):
        st.session_state.pop(name, None)
