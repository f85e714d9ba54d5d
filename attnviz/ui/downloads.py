"""Downloads of the numbers and the figure, and the link to the current state."""

import plotly.graph_objects as go
import streamlit as st

from attnviz.app_files import ASSETS
from attnviz.language import _
from attnviz.link import page_address
from attnviz.page.map_files import as_csv, as_npz, figures_page
from attnviz.sources.formats import READERS
from attnviz.ui.link_state import link_parameters, unlinked
from attnviz.views.selected_maps import HeadMap

SAMPLES = sorted(path for path in (ASSETS / "samples").iterdir() if path.suffix in READERS)


def downloads(head_map: HeadMap, figure: go.Figure, note: str = "", weights: str = "") -> None:
    """Draws buttons for the weights as CSV and .npz and for the figure as HTML, and the link.

    PNG and SVG are made in the browser by the chart. The note explains the numbers if they are not the whole map.
    """
    columns = (head_map.weights, *head_map.labels)
    with st.popover(_("Download"), icon=":material/download:", width="stretch"):
        for title, extension, make in (
            (_("Weights as CSV"), "csv", lambda: as_csv(*columns)),
            (_("Weights as .npz"), "npz", lambda: as_npz(*columns)),
            (
                _("Figure as HTML"),
                "html",
                lambda: figures_page([(_("Attention: {title}", title=head_map.title), figure)], weights),
            ),
        ):
            st.download_button(
                title,
                make,
                _("attention {title}.{extension}", title=head_map.title, extension=extension),
                on_click="ignore",
                width="stretch",
            )
        if note:
            st.caption(note)
        st.caption(_("PNG and SVG: the buttons above the figure. Link to this state:"))
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
