"""A bounded cache of results for all sessions, and the last good result of each session.

Keys are text: the `repr` of what a result depends on. Streamlit would hash large arrays by a sample, and nested
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
    """Returns the layers of a source."""
    return _layers(source, repr(source))


def once(compute: Callable[[], T], *key: object) -> T:
    """Returns the result of `compute`, cached under these keys."""
    return _once(compute, repr(key))


def or_last_good(
    name: str,
    make: Callable[[], T],
    first: Callable[[], T],
    notes: DeltaGenerator,
    refused: Exception | None = None,
) -> T:
    """Returns the result of `make`. If it raises, the message is shown in `notes` and the last good result is returned,
    or the result of `first`.

    If an earlier step was `refused`, its message is shown, and the result of `make` is returned but not stored.
    """
    key, result = f"last good {name}", None
    try:
        result = make()
    except (ValueError, NotImplementedError) as problem:
        refused = refused or problem
    if refused is None:
        st.session_state[key] = result
    elif isinstance(refused, MissingInput):
        notes.info(plain(f"{refused} {_below(key)}"))
    else:
        notes.error(plain(f"{refused} {_below(key)}"), icon=":material/error:")
    return result or st.session_state.get(key) or first()


def last(name: str) -> Any:
    """Returns the last good result with this name, or None."""
    return st.session_state.get(f"last good {name}")


def remember(name: str, good: object) -> None:
    """Stores a result as the last good one."""
    st.session_state[f"last good {name}"] = good


def forget(name: str) -> None:
    """Removes the last good result."""
    st.session_state.pop(f"last good {name}", None)


def _below(key: str) -> str:
    description = "the last one that could be made" if key in st.session_state else "the example"
    return f"The picture below is {description}."


@st.cache_resource(max_entries=1, scope="session", show_spinner="Reading …")
def _layers(_source: Source, key: str) -> Sequence[Layer]:
    return _source.layers()


@st.cache_resource(max_entries=64, show_spinner="Computing …")
def _once(_compute: Callable[[], Any], key: str) -> Any:
    with _COMPUTING:
        return _compute()
