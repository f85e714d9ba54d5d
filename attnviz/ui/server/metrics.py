"""Numbers about the running app for Prometheus, on a port of their own; labels are names of pages and outcomes."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, start_http_server

from attnviz.base import settings
from attnviz.ui.server import scheduling
from attnviz.ui.server.logs import write_event
from attnviz.ui.server.streamlit_internals import connected_sessions

REGISTRY = CollectorRegistry()
RUNS = Counter("attnviz_page_runs", "Runs of pages", ["page", "outcome"], registry=REGISTRY)
ERRORS = Counter("attnviz_page_errors", "Runs of pages that failed", ["page"], registry=REGISTRY)
SECONDS = Histogram(
    "attnviz_page_run_seconds",
    "Time of a run of a page, waiting included",
    ["page"],
    registry=REGISTRY,
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
)
ProcessCollector(registry=REGISTRY)  # memory and time of the process


def _gauge(name: str, meaning: str, value: Callable[[], float]) -> None:
    Gauge(name, meaning, registry=REGISTRY).set_function(value)


_gauge("attnviz_sessions", "Browsers that are connected", connected_sessions)
_gauge("attnviz_waiting_page_runs", "Runs of pages that wait for a turn", scheduling.waiting_page_runs)
_gauge("attnviz_waiting_computations", "Heavy computations that wait", scheduling.waiting_computations)


def count_run(page: str, outcome: str, seconds: float) -> None:
    """Counts a run of a page."""
    RUNS.labels(page, outcome).inc()
    SECONDS.labels(page).observe(seconds)
    if outcome == "failed":
        ERRORS.labels(page).inc()


@contextmanager
def serving() -> Iterator[None]:
    """Serves the metrics at /metrics of their own port while the block runs; without ATTNVIZ_METRICS_PORT, not at all.

    Raises OSError if the port is taken.
    """
    port = settings.metrics_port()
    if port is None:
        yield
        return
    try:
        server, thread = start_http_server(port, settings.metrics_address(), REGISTRY)
    except OSError as error:
        write_event("metrics", level=logging.ERROR, port=port, outcome="failed", error=type(error).__name__)
        raise
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
