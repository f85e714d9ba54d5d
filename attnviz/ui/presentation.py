"""Presentation mode for projectors: larger letters and no controls. `present=1` in the link; its style is in
present.css."""

import streamlit as st

from attnviz.ui.markdown import plain

KEY = "present"
OFF, ON = "0", "1"
PRESENTING = (KEY, ON)  # in a link


def switch() -> None:
    """Draws the button that enters and leaves the mode, on every page.

    The link parameter belongs to a hidden menu, so that Streamlit keeps it over reruns, other pages and the browser's
    history.
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
    """Returns whether the mode is on; call it after `switch`."""
    return st.session_state.get(KEY) == ON


def show_title(title: str) -> None:
    """Draws a title in presentations, where menus are hidden."""
    if presenting():
        st.caption(plain(title))


def _turn(on: bool) -> None:
    st.session_state[KEY] = ON if on else OFF
