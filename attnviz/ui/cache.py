"""The results of all visitors, and the last good result of each session.

Streamlit's own caches would hash large arrays by a sample, and nested dataclasses without their type.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, TypeVar

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz.base.language import _, current_language
from attnviz.base.turns import is_heavy, set_turns, turn
from attnviz.layer import Layer
from attnviz.page.long_maps import LONG_WORK
from attnviz.page.result_cache import ResultCache, set_result_cache
from attnviz.sources import Source, Upload
from attnviz.sources.source import MissingInput
from attnviz.ui.job_progress import map_so_far
from attnviz.ui.markdown import plain
from attnviz.ui.server import jobs
from attnviz.ui.server.page_runs import page_failure
from attnviz.ui.server.scheduling import computation, session
from attnviz.ui.server.upload_memory import UploadMemory
from attnviz.ui.session_values import SessionValue
from attnviz.ui.write import writing_job

T = TypeVar("T")
F = TypeVar("F")
LATEST = SessionValue[tuple[str, Sequence[Layer]]]("latest layers", lambda: ("", ()))
_caches: "list[VisitorResults]" = []


@contextmanager
def session_turn(work: int) -> Iterator[None]:
    """Waits for the turn of this session if the work is heavy. A job has no session to show it to."""
    with computation(work), st.spinner(_("Computing …")) if is_heavy(work) and session() else nullcontext():
        yield


class VisitorResults(ResultCache):
    """The results of all visitors."""

    def __init__(self, max_results: int) -> None:
        super().__init__(max_results)
        _caches.append(self)

    def layers(self, source: Source) -> Sequence[Layer]:
        """Returns the layers of a source, which a session keeps while it shows them."""
        if source.keeps_layers or not session():
            return super().layers(source)
        key = _layers_key(source)
        shown, layers = LATEST.get()
        if shown != key:
            with turn(source.work):
                layers = _read(source)
            LATEST.set((key, layers))
        return layers

    def refined(self, compute: Callable[..., Any], *key: object, work: int) -> Any:
        """Returns what there is of a map; one of more than LONG_WORK steps is computed as a job."""
        return self.once(compute, *key, work=work) if work <= LONG_WORK or not session() else map_so_far(compute, *key)

    def growing(self, compute: Callable[..., Any], *key: object, work: int) -> Any:
        """Returns what there is of a text that is being written."""
        if not session():
            return super().growing(compute, *key, work=work)
        return self._hold(repr(key), lambda: writing_job.request(compute, *key).first())

    def finished(self, *key: object) -> Any:
        return jobs.finished(*key)


_uploads = UploadMemory()
_shared = VisitorResults(64)
set_result_cache(_shared)
set_turns(session_turn)
once = _shared.once


def keep_layers(source: Source, layers: Sequence[Layer]) -> None:
    """Lets this session have these layers of a source, which can maybe not be read any more."""
    if not source.keeps_layers:
        LATEST.set((_layers_key(source), layers))


def _layers_key(source: Source) -> str:
    return f"{current_language()} {source!r}"


def drop_results() -> None:
    """Drops the results of all caches."""
    for one in _caches:
        one.drop()


def or_last_good(
    name: str, subject: object, make: Callable[[], T], first: Callable[[], F], notes: DeltaGenerator
) -> T | F:
    """Returns the result of `make`. If it raises, the message is shown in `notes`, and the last good result is returned
    if it has the same subject, as its `repr` says; or else the result of `first`, which may be None.

    The subject is what the result is a picture of, such as a model: under its name nothing else is shown.
    """
    try:
        result = make()
    except Exception as problem:  # noqa: BLE001 - the figure stays, whatever it is
        is_expected = isinstance(problem, ValueError | NotImplementedError)
        shown = problem if is_expected else RuntimeError(page_failure(problem))
        good, description = last(name, subject), _("the last one that could be made")
        if good is None:
            good, description = first(), _("the example")
        below = "" if good is None else _("The figure below is {description}.", description=description)
        show_problem(shown, notes, below)
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
    its_subject, result = _last_good(name).get()
    return result if its_subject == repr(subject) else None


def remember(name: str, subject: object, good: object) -> None:
    """Stores a result as the last good one."""
    _last_good(name).set((repr(subject), good))


def _last_good(name: str) -> SessionValue[tuple[str, Any]]:
    return SessionValue(f"last good {name}", lambda: ("", None))


def _read(source: Source) -> Sequence[Layer]:
    if not isinstance(source, Upload) or source.file is None:
        return source.layers()
    size = len(source.file.data)
    with _uploads.reserve(size + source.reader_bytes):
        layers = source.layers()
    _uploads.hold(layers, size)
    return layers
