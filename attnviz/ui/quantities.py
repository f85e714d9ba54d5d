"""What a page has computed, by name, for the checks of a lesson."""

from collections.abc import Callable

import streamlit as st

from attnviz.lessons.checks import Quantities

_KEY = "quantities"


def publish(compute: Callable[[], Quantities]) -> None:
    """Gives the lesson the quantities of this run; they are computed if a lesson asks for them."""
    st.session_state[_KEY] = compute


def collect() -> Quantities:
    """Computes the quantities of this run; none if the page has none."""
    compute: Callable[[], Quantities] | None = st.session_state.get(_KEY)
    return compute() if compute else {}


def discard() -> None:
    """Drops what is published, and with it the arrays that it refers to."""
    st.session_state.pop(_KEY, None)
