"""The progress of reading a GGUF file: for its digest, and once to be converted, while its model is loaded."""

from collections.abc import Callable

import streamlit as st

from attnviz.base.formatting import byte_size
from attnviz.base.language import _


def progress_bar() -> Callable[[int, int], None]:
    """Returns a function of the bytes done and in total that draws a bar, and removes it at the end."""
    place, shown = st.empty(), -1

    def draw(done: int, size: int) -> None:
        nonlocal shown
        percent = 100 * done // max(1, size)
        if percent == shown:  # the browser is told of each percent once
            return
        shown = percent
        text = _("The file is read: {done} of {size}", done=byte_size(done), size=byte_size(size))
        if done < size:
            place.progress(percent, text)
        else:
            place.empty()

    return draw
