"""Logs and metrics of each run of a page: its page, its seconds and its outcome."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from attnviz.base.language import _
from attnviz.ui.server import metrics
from attnviz.ui.server.logs import write_event
from attnviz.ui.server.streamlit_internals import ScriptControlException, StopException

_errors: ContextVar[list[str] | None] = ContextVar("kinds of the errors of this run", default=None)


class PageEnd(StopException):
    """Raised when a page has no more to show, in place of st.stop(), whose exception also ends a run that nobody
    waits for."""


def page_failure(problem: Exception) -> str:
    """Logs an error that nobody expected, and lets the run of the page count as failed; returns the sentence that the
    page says in place of what it cannot show."""
    error = type(problem).__name__
    if (errors := _errors.get()) is not None:
        errors.append(error)
    write_event("error", level=logging.ERROR, problem=problem)
    return _(
        "This cannot be shown: attnviz has an error here ({error}), and the server has logged where. Change something, "
        "or go on elsewhere.",
        error=error,
    )


@contextmanager
def observation(page: str) -> Iterator[None]:
    """Records the run of a page, which is the block: done, interrupted by a newer run, or failed with an error."""
    start, outcome, errors = time.perf_counter(), "done", list[str]()
    token = _errors.set(errors)
    try:
        yield
    except PageEnd:
        raise
    except ScriptControlException:
        outcome = "interrupted"
        raise
    except Exception as exception:
        errors.append(type(exception).__name__)
        raise
    finally:
        _errors.reset(token)
        error = errors[0] if errors else None
        outcome = "failed" if error else outcome
        seconds = time.perf_counter() - start
        metrics.count_run(page, outcome, seconds)
        level = logging.ERROR if error else logging.INFO
        write_event(
            "page run",
            level=level,
            page=page,
            seconds=round(seconds, 3),
            outcome=outcome,
            **dict[str, Any]({"error": error} if error else {}),
        )
