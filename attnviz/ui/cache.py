"""A bounded cache of results for all sessions, and the last good result of each session.

Keys are text: the `repr` of what a result depends on. Streamlit would hash large arrays by a sample, and nested
dataclasses without their type.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, TypeVar

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz.analysis.work import is_heavy
from attnviz.language import _, current_language
from attnviz.layer import Layer
from attnviz.sources import Source, Upload
from attnviz.sources.source import MissingInput
from attnviz.ui.markdown import plain
from attnviz.ui.scheduling import computation
from attnviz.ui.upload_memory import UploadMemory

T = TypeVar("T")
MISSING = object()
LATEST = "latest layers"  # of a session
_caches: "list[ResultCache]" = []


class ResultCache:
    """The latest results of all sessions; the least recently used one is dropped first."""

    def __init__(self, max_results: int) -> None:
        self.max_results = max_results
        self._results: OrderedDict[str, Any] = OrderedDict()
        self._lock = threading.Lock()
        _caches.append(self)

    def once(self, compute: Callable[[], T], *key: object, work: int = 0) -> T:
        """Returns the result of `compute`, cached under these keys.

        `work` is the approximate number of its steps; heavy work waits for the turn of its session.
        """
        name = repr((current_language(), *key))  # results may have words in them
        if (result := self._find(name)) is not MISSING:
            return result
        with computation(work), st.spinner(_("Computing …")) if is_heavy(work) else nullcontext():
            if (result := self._find(name)) is not MISSING:  # computed by another session meanwhile
                return result
            result = compute()
            with self._lock:
                self._results[name] = result
                if len(self._results) > self.max_results:
                    self._results.popitem(last=False)
            return result

    def drop(self) -> None:
        """Drops all results."""
        with self._lock:
            self._results.clear()

    def _find(self, name: str) -> Any:
        with self._lock:
            if name in self._results:
                self._results.move_to_end(name)
            return self._results.get(name, MISSING)


_uploads = UploadMemory()
_shared = ResultCache(64)
once = _shared.once


def drop_results() -> None:
    """Drops the results of all caches."""
    for one in _caches:
        one.drop()


def layers(source: Source) -> Sequence[Layer]:
    """Returns the layers of a source."""
    key = f"{current_language()} {source!r}"
    last: tuple[str, Sequence[Layer]] | None = st.session_state.get(LATEST)
    if last is None or last[0] != key:
        with computation(source.work), st.spinner(_("Reading …")) if is_heavy(source.work) else nullcontext():
            last = st.session_state[LATEST] = key, _read(source)
    return last[1]


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
    description = _("the last one that could be made") if key in st.session_state else _("the example")
    return _("The picture below is {description}.").format(description=description)


def _read(source: Source) -> Sequence[Layer]:
    if not isinstance(source, Upload) or source.file is None:
        return source.layers()
    size = len(source.file.data)
    with _uploads.reserve(size + source.reader_bytes):
        layers = source.layers()
    _uploads.hold(layers, size)
    return layers
