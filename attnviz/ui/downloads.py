"""Downloads of the numbers and the figure, and the link to the current state."""

from collections.abc import Callable, Sequence

import streamlit as st

from attnviz.base.app_files import ASSETS
from attnviz.base.language import _
from attnviz.base.link import page_address
from attnviz.sources.formats import READERS
from attnviz.ui.link_state import link_parameters, unlinked

SAMPLES = sorted(path for path in (ASSETS / "samples").iterdir() if path.suffix in READERS)


def downloads(files: Sequence[tuple[str, str, Callable[[], str | bytes]]]) -> None:
    """Draws buttons for files, each with its label, its name and what makes it, and the link. PNG and
    SVG are made in the browser by the charts."""
    with st.popover(_("Download"), icon=":material/download:", key="page-download"):
        for label, name, make in files:
            st.download_button(label, make, name, on_click="ignore", width="stretch")
        st.caption(_("PNG, SVG and numbers of a figure: the icon above it. Link to this state:"))
        st.code(link(), language=None, wrap_lines=True)
        if reason := unlinked.get():
            st.caption(reason)


def samples() -> None:
    """Draws a download button for each sample file."""
    with st.popover(_("Samples"), icon=":material/download:"):
        for file in SAMPLES:
            st.download_button(file.name, file.read_bytes, file.name, on_click="ignore", width="stretch")


def link() -> str:
    """Returns the address of the current state."""
    return page_address(st.context.url or "", link_parameters())
