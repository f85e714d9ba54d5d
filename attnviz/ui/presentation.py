"""Presentation: larger letters and no controls, for a projector; everything else stays as it is.

`present=1` in the link. What it looks like is in present.css.
"""

import streamlit as st

from attnviz.ui.markdown import plain

KEY = "present"
OFF, ON = "0", "1"


def switch() -> None:
    """The way in and out, on every page.

    The link's parameter is that of a menu that nobody sees: so Streamlit keeps it over reruns, over other pages and
    over the browser's way back.
    """
    st.selectbox("Present", [OFF, ON], key=KEY, bind="query-params")
    on = presenting()
    with st.container(key="presenting" if on else "not-presenting", width="content"):
        st.button(
            "Leave" if on else "Present",
            icon=":material/close:" if on else ":material/slideshow:",
            key="present-switch",
            type="tertiary",
            help="Back to the controls" if on else "Larger letters and no controls, for a projector",
            on_click=_turn,
            args=(not on,),
        )


def presenting() -> bool:
    """Whether it is one now; to be asked after `switch`."""
    return st.session_state.get(KEY) == ON


def show_title(title: str) -> None:
    """Says in a presentation what is seen: the menus that say it else are not there."""
    if presenting():
        st.caption(plain(title))


def _turn(on: bool) -> None:
    st.session_state[KEY] = ON if on else OFF
