"""A slider that can play: while it does, it goes on by itself."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import streamlit as st

T = TypeVar("T")
EVERY = 1.0  # seconds from one option to the next
PLAYING = "plays"  # in the session: the key of the slider that plays; one at a time, so that none disturbs another


def slider(label: str, options: Sequence[T], key: str, *, start: T, shown: Callable[[T], str] = str) -> T:
    """One of several options along a line; beside it a button that plays from here, or from the first, to the last.

    What is `shown` of the option is `key` in the link; a link that says something else gives `start`. The page runs
    again every second while it plays, and not at all when it does not. In a presentation both stay.
    """
    plays = st.session_state.get(PLAYING) == key
    with st.container(key=f"play-{key}", horizontal=True, vertical_alignment="bottom", wrap=False, gap="small"):
        st.button(
            "Pause" if plays else "Play",
            icon=":material/pause:" if plays else ":material/play_arrow:",
            key=f"{key}-play", disabled=len(options) < 2, on_click=_press, args=(key, options),
        )  # fmt: skip
        chosen = st.select_slider(label, options, start, format_func=shown, key=key, bind="query-params")
    if plays:
        _go_on(key, options)
    return chosen


def _press(key: str, options: Sequence[T]) -> None:
    if st.session_state.get(PLAYING) == key:
        st.session_state[PLAYING] = None
        return
    st.session_state[PLAYING] = key
    if st.session_state[key] == options[-1]:
        st.session_state[key] = options[0]


def _go_on(key: str, options: Sequence[T]) -> None:
    """Has the browser ask for the next option in a while."""
    drawn = False

    @st.fragment(run_every=EVERY)
    def ask() -> None:
        nonlocal drawn
        if not drawn:  # with the page, and not by the clock
            drawn = True
            return
        if st.session_state.get(PLAYING) != key:  # paused, after the browser had asked already
            return
        at = min(options.index(st.session_state[key]) + 1, len(options) - 1)
        st.session_state[key] = options[at]
        if at == len(options) - 1:
            st.session_state[PLAYING] = None
        st.rerun()

    ask()
