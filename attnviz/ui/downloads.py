"""Downloads of the numbers and the figure, and the link to the current state."""

import csv
import io
from collections.abc import Sequence
from urllib.parse import urlencode

import numpy as np
import plotly.graph_objects as go
import streamlit as st
from jaxtyping import Float

from attnviz.app_files import ASSETS
from attnviz.figures import label, themed
from attnviz.language import N_, _
from attnviz.sources.formats import READERS
from attnviz.ui.head_map import HeadMap
from attnviz.ui.link_state import link_parameters

SAMPLES = sorted(path for path in (ASSETS / "samples").iterdir() if path.suffix in READERS)
FILE_NOT_LINKED = N_("The uploaded file stays in this session: it is not in the link.")


def downloads(head_map: HeadMap, figure: go.Figure, note: str = "", *, not_linked: str = "") -> None:
    """Draws buttons for the weights as CSV and .npz and for the figure as HTML, and the link.

    PNG and SVG are made in the browser by the chart. The note explains the numbers if they are not the whole map;
    `not_linked` says what is not in the link.
    """
    columns = (head_map.weights, *head_map.labels)
    with st.popover(_("Download"), icon=":material/download:", width="stretch"):
        for title, extension, make in (
            (_("Weights as CSV"), "csv", lambda: as_csv(*columns)),
            (_("Weights as .npz"), "npz", lambda: as_npz(*columns)),
            (
                _("Picture as HTML"),
                "html",
                lambda: as_html(figure, _("Attention: {title}").format(title=head_map.title)),
            ),
        ):
            st.download_button(
                title,
                make,
                _("attention {title}.{extension}").format(title=head_map.title, extension=extension),
                on_click="ignore",
                width="stretch",
            )
        if note:
            st.caption(note)
        st.caption(_("PNG and SVG: the buttons above the picture. Link to this state:"))
        st.code(link(), language=None, wrap_lines=True)
        if not_linked:
            st.caption(not_linked)


def samples() -> None:
    """Draws a download button for each sample file."""
    with st.popover(_("Samples"), icon=":material/download:"):
        for file in SAMPLES:
            st.download_button(file.name, file.read_bytes, file.name, on_click="ignore", width="stretch")


def link() -> str:
    """Returns the address of the current state."""
    query_string = urlencode(link_parameters())
    page = st.context.url or ""
    return f"{page}{'?' if query_string else ''}{query_string}"


def as_csv(weights: Float[np.ndarray, "queries keys"], query_tokens: Sequence[str], key_tokens: Sequence[str]) -> bytes:
    """Returns the weights as CSV, with keys as the header and queries as the first column; masked cells are empty."""
    text = io.StringIO()
    table = csv.writer(text)
    table.writerow(["", *map(_cell, key_tokens)])
    for token, row in zip(query_tokens, weights, strict=True):
        table.writerow([_cell(token), *("" if np.isnan(weight) else repr(float(weight)) for weight in row)])
    return text.getvalue().encode("utf-8-sig")


def as_npz(weights: Float[np.ndarray, "queries keys"], query_tokens: Sequence[str], key_tokens: Sequence[str]) -> bytes:
    """Returns the weights as .npz, with 0 where masked, and the tokens; the file can be uploaded."""
    file = io.BytesIO()
    np.savez_compressed(
        file,
        weights=np.nan_to_num(weights),
        tokens=np.array(query_tokens, dtype=str),
        key_tokens=np.array(key_tokens, dtype=str),
    )
    return file.getvalue()


def as_html(figure: go.Figure, title: str) -> bytes:
    """Returns the figure as one HTML file that works offline."""
    titled = themed(figure).update_layout(title={"text": label(title)}, margin_t=70)
    return titled.to_html(include_plotlyjs=True, full_html=True, config={"displaylogo": False}).encode()


def _cell(token: str) -> str:
    """Returns a token that spreadsheets do not run as a formula."""
    return f"'{token}" if token[:1] in tuple("=+-@\t\r") else token
