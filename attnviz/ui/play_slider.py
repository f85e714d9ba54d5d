"""A slider with a Play button that advances it once a second."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import streamlit as st

from attnviz.language import _

T = TypeVar("T")
EVERY = 1.0  # seconds from one option to the next
PLAYING = "plays"  # in the session: the key of the slider that plays; one at a time, so that none disturbs another


def slider(label: str, options: Sequence[T], key: str, *, start: T, format_func: Callable[[T], str] = str) -> T:
    """Draws a slider over options and a Play button, and returns the selected option.

    Play starts at the first option if the last one is selected. The formatted option is the link parameter `key`; an
    unknown one in the link selects `start`. The page reruns every second while the slider plays. Both widgets are also
    visible in presentations.
    """
    plays = st.session_state.get(PLAYING) == key
    with st.container(key=f"play-{key}", horizontal=True, vertical_alignment="bottom", wrap=False, gap="small"):
        st.button(
            _("Pause") if plays else _("Play"),
            icon=":material/pause:" if plays else ":material/play_arrow:",
            key=f"{key}-play", disabled=len(options) < 2, on_click=_press, args=(key, options),
        )  # fmt: skip
        chosen = st.select_slider(label, options, start, format_func=format_func, key=key, bind="query-params")
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
    """Advances the slider after EVERY seconds."""
    drawn = False

    @st.fragment(run_every=EVERY)
    def advance() -> None:
        nonlocal drawn
        if not drawn:  # with the page, and not by the clock
            drawn = True
            return
        if st.session_state.get(PLAYING) != key:  # paused, after the browser had asked already
            return
        index = min(options.index(st.session_state[key]) + 1, len(options) - 1)
        st.session_state[key] = options[index]
        if index == len(options) - 1:
            st.session_state[PLAYING] = None
        st.rerun()

    advance()
