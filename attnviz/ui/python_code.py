"""The lines of Python that show in a notebook what a page shows."""

import streamlit as st

from attnviz.base.language import _
from attnviz.base.link import Link, page_address
from attnviz.pages.catalogue import BLOCKS, read_state
from attnviz.ui.link_state import link_parameters, unlinked
from attnviz.ui.markdown import plain

PLAIN = "(),·|~;:'"  # characters that may stand in a link as they are


def show(page: str) -> None:
    """Draws a button that opens the lines, on pages whose views are computed from a link."""
    problem = unlinked.pop()
    if page not in BLOCKS:
        return
    opened = st.popover(_("Copy as Python"), type="tertiary", key="copy-as-python", on_change="rerun")
    if not opened.open:
        return
    with opened:
        try:
            if problem:
                raise ValueError(problem)
            st.code(python_code(page, tuple(link_parameters())), language="python", wrap_lines=True)
        except ValueError as problem:
            st.caption(plain(str(problem)))


def python_code(page: str, link: Link) -> str:
    """Returns a program that shows what a page shows when a link opens it. Raises ValueError if the link does not have
    all of it, such as an uploaded file."""
    state = read_state(page, link)
    if state.problem:
        raise ValueError(state.problem)
    return f"import attnviz\n\nattnviz.view({page_address(page, state.link(), PLAIN)!r})"
