"""Logs and metrics of each run of a page: its page, its seconds and its outcome."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

from attnviz.server import metrics
from attnviz.server.logs import write_event
from attnviz.server.streamlit_internals import ScriptControlException, StopException


class PageEnd(StopException):
    """Raised when a page has no more to show, in place of st.stop(), whose exception also ends a run that nobody
    waits for."""


@contextmanager
def observation(page: str) -> Iterator[None]:
    """Records the run of a page, which is the block: done, interrupted by a newer run, or failed with an error."""
    start, outcome, error = time.perf_counter(), "done", None
    try:
        yield
    except PageEnd:
        raise
    except ScriptControlException:
        outcome = "interrupted"
        raise
    except Exception as exception:
        outcome, error = "failed", type(exception).__name__
        raise
    finally:
        seconds = time.perf_counter() - start
        metrics.count_run(page, outcome, seconds)
        level = logging.ERROR if error else logging.INFO
        write_event(
            "page run", level=level, page=page, seconds=round(seconds, 3), outcome=outcome,
            **({"error": error} if error else {}),
        )  # fmt: skip
