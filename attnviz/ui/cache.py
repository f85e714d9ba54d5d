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
F = TypeVar("F")
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
    name: str, subject: object, make: Callable[[], T], first: Callable[[], F], notes: DeltaGenerator
) -> T | F:
    """Returns the result of `make`. If it raises, the message is shown in `notes`, and the last good result is returned
    if it has the same subject, as its `repr` says; or else the result of `first`, which may be None.

    The subject is what the result is a picture of, such as a model: under its name nothing else is shown.
    """
    try:
        result = make()
    except (ValueError, NotImplementedError) as problem:
        good, description = last(name, subject), _("the last one that could be made")
        if good is None:
            good, description = first(), _("the example")
        below = "" if good is None else _("The picture below is {description}.").format(description=description)
        show_problem(problem, notes, below)
        return good
    remember(name, subject, result)
    return result


def show_problem(problem: Exception, notes: DeltaGenerator, below: str = "") -> None:
    """Shows why something cannot be shown, and what is below instead."""
    message = plain(f"{problem} {below}".strip())
    if isinstance(problem, MissingInput):
        notes.info(message)
    else:
        notes.error(message, icon=":material/error:")


def last(name: str, subject: object) -> Any:
    """Returns the last good result with this name, or None if it has another subject."""
    its_subject, result = st.session_state.get(f"last good {name}", ("", None))
    return result if its_subject == repr(subject) else None


def remember(name: str, subject: object, good: object) -> None:
    """Stores a result as the last good one."""
    st.session_state[f"last good {name}"] = repr(subject), good


def _read(source: Source) -> Sequence[Layer]:
    if not isinstance(source, Upload) or source.file is None:
        return source.layers()
    size = len(source.file.data)
    with _uploads.reserve(size + source.reader_bytes):
        layers = source.layers()
    _uploads.hold(layers, size)
    return layers
