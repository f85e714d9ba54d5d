"""Parts of a page that are drawn again while the rest stays."""

from collections.abc import Callable
from functools import wraps
from typing import TypeVarTuple

import streamlit as st

from attnviz.ui.field_widgets import show_error
from attnviz.ui.server.page_runs import page_failure

Ts = TypeVarTuple("Ts")


def draw_repeatedly(draw: Callable[[*Ts], object], seconds: float | None, *args: *Ts) -> None:
    """Draws a part of the page, and draws it again without the rest at an interval in seconds. Once it has failed, the
    reason is in its place."""
    failure = ""

    @wraps(draw)  # by whose name Streamlit knows the part in the next run of the page
    def part() -> None:
        nonlocal failure
        if not failure:
            try:
                draw(*args)
            except Exception as problem:  # noqa: BLE001 - the rest of the page stays, whatever it is
                failure = page_failure(problem)
            else:
                return
        show_error(failure)

    st.fragment(part, run_every=seconds)()
