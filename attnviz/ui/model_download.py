"""Downloads of models in the background."""

import threading

import streamlit as st

from attnviz.base.formatting import byte_size, grouped
from attnviz.base.language import _
from attnviz.models.hub import Hub, RemoteModel
from attnviz.ui.fragments import draw_repeatedly
from attnviz.ui.markdown import plain


class ModelDownload:
    """The download of one model in a thread, shared by all sessions."""

    def __init__(self, away: RemoteModel, hub: Hub) -> None:
        self.away, self.done, self.problem = away, away.size - away.left, ""
        self.thread = threading.Thread(target=self._fetch, args=(hub,), daemon=True)
        self.thread.start()

    @property
    def share(self) -> float:
        """The share of the model that has been downloaded, from 0 to 1."""
        return min(1.0, self.done / max(1, self.away.size))

    def _fetch(self, hub: Hub) -> None:
        try:
            hub.fetch(self.away, self._progress)
        except ValueError as problem:
            self.problem = str(problem)

    def _progress(self, done: int, size: int) -> None:
        self.done = done


_under_way: dict[str, ModelDownload] = {}
_starting = threading.Lock()


def takes(away: RemoteModel) -> str:
    """Returns a sentence about the size of a download."""
    sentence = (
        _(
            "{name} is not on this computer yet. It has {parameters} parameters; {left} of {size}, the rest of which "
            "is here, would be downloaded."
        )
        if away.left < away.size
        else _("{name} is not on this computer yet. It has {parameters} parameters; {left} would be downloaded.")
    )
    values = byte_size(away.left), byte_size(away.size)
    return sentence.format(name=away.name, parameters=grouped(away.parameters), left=values[0], size=values[1])


def offer(away: RemoteModel, hub: Hub) -> None:
    """Draws a button that starts a download, or its progress."""
    download = _under_way.get(away.name)
    if download is None:
        st.button(
            _("Download {left}", left=byte_size(away.left)),
            icon=":material/download:",
            key="download",
            type="primary",
            on_click=_start,
            args=(away, hub),
        )
    elif download.problem:
        st.error(plain(download.problem), icon=":material/error:")
        st.button(_("Try again"), icon=":material/refresh:", key="again", on_click=_forget, args=(away.name,))
    else:
        draw_repeatedly(_progress, 0.5, download)


def _start(away: RemoteModel, hub: Hub) -> None:
    with _starting:  # two people may press at the same moment
        if away.name not in _under_way:
            _under_way[away.name] = ModelDownload(away, hub)


def _forget(name: str) -> None:
    _under_way.pop(name, None)


def _progress(download: ModelDownload) -> None:
    name = download.away.name
    st.progress(
        download.share,
        _(
            "{name}: {done} of {size}",
            name=plain(name),
            done=byte_size(download.done),
            size=byte_size(download.away.size),
        ),
    )
    if not download.thread.is_alive():
        if not download.problem:
            _forget(name)
        st.rerun()
