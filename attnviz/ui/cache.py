"""What is computed once for everybody who asks the same, bounded; and what a session saw last.

The key is text: what was asked, by `repr`. Streamlit would hash large arrays from a sample, and dataclasses inside
dataclasses without their type.
"""

import os
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz.layer import Layer
from attnviz.sources import Source
from attnviz.sources.source import MissingInput
from attnviz.ui.markdown import plain

T = TypeVar("T")
_COMPUTING = threading.BoundedSemaphore(os.cpu_count() or 1)  # more at once would only wait for each other


def layers(source: Source) -> Sequence[Layer]:
    """The layers of a source."""
    return _layers(source, repr(source))


def once(make: Callable[[], T], *asked: object) -> T:
    """What is made for what was asked; the same question gets the same answer."""
    return _once(make, repr(asked))


def or_last_good(
    name: str,
    make: Callable[[], T],
    first: Callable[[], T],
    notes: DeltaGenerator,
    refused: Exception | None = None,
) -> T:
    """What `make` gives. If it refuses, its sentence stands in `notes`, and what it gave last stays; or `first`.

    Where something before it was `refused`, it is that which is said, and what `make` gives is shown, but not kept.
    """
    key, made = f"last good {name}", None
    try:
        made = make()
    except (ValueError, NotImplementedError) as problem:
        refused = refused or problem
    if refused is None:
        st.session_state[key] = made
    elif isinstance(refused, MissingInput):
        notes.info(plain(f"{refused} {_below(key)}"))
    else:
        notes.error(plain(f"{refused} {_below(key)}"), icon=":material/error:")
    return made or st.session_state.get(key) or first()


def last(name: str) -> Any:
    """What `or_last_good` has kept under this name, if anything."""
    return st.session_state.get(f"last good {name}")


def remember(name: str, good: object) -> None:
    """Keeps what turned out to be good in the end, should the next fail."""
    st.session_state[f"last good {name}"] = good


def forget(name: str) -> None:
    """Keeps no longer what was good, should it have gone."""
    st.session_state.pop(f"last good {name}", None)


def _below(key: str) -> str:
    shown = "the last one that could be made" if key in st.session_state else "the example"
    return f"The picture below is {shown}."


@st.cache_resource(max_entries=1, scope="session", show_spinner="Reading …")
def _layers(_source: Source, asked: str) -> Sequence[Layer]:
    return _source.layers()


@st.cache_resource(max_entries=64, show_spinner="Computing …")
def _once(_make: Callable[[], Any], asked: str) -> Any:
    with _COMPUTING:
        return _make()
