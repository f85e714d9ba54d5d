"""How the maps of A and B are arranged: side by side, or one over the other with a slider that wipes between them."""

import streamlit as st

from attnviz.language import N_, _
from attnviz.ui.menus import names_of

SIDE_BY_SIDE, WIPE = N_("Side by side"), N_("Wipe")
_KEY = "maps"


def choose_arrangement() -> str:
    """Draws the control, and returns SIDE_BY_SIDE or WIPE."""
    return st.segmented_control(
        _("Maps"), [SIDE_BY_SIDE, WIPE], default=SIDE_BY_SIDE, required=True, key=_KEY, bind="query-params",
        format_func=names_of(_KEY, [SIDE_BY_SIDE, WIPE]),
        label_visibility="collapsed",
    )  # fmt: skip


def show_side_by_side() -> None:
    """Chooses SIDE_BY_SIDE; cells are painted there."""
    st.session_state[_KEY] = SIDE_BY_SIDE
