"""The classes of this server, who listens to their news, and what is computed of them once for all who follow."""

from functools import cache, lru_cache
from threading import Lock

from attnviz import settings
from attnviz.classroom.live_class import Classes
from attnviz.classroom.stores import open_store
from attnviz.ui.classroom.result_charts import packed_chart, result_charts
from attnviz.ui.classroom.states import Json, closed_results, shared_state
from attnviz.ui.classroom.watcher import Watcher

_COMPUTING = Lock()  # a whole class asks at once for what is computed for the first


@cache
def classes() -> Classes:
    """Returns the classes of this server; the first use opens their store."""
    return Classes(open_store(settings.class_store()), settings.class_hours())


@cache
def watcher() -> Watcher:
    """Returns what listens for news of the classes."""
    return Watcher(lambda codes: classes().store.versions(codes))


def end_streams() -> None:
    """Ends all streams of news, so that the server can stop; browsers come back to the next one."""
    watcher().stop()


def state_for_all(code: str, version: str, in_language: str) -> Json:
    """Returns what everybody sees of a class at a version, in the language of the request."""
    with _COMPUTING:
        return _state(code, version, in_language)


def charts_for_all(code: str, stamp: str, in_language: str) -> tuple[bytes, ...]:
    """Returns the charts of the results with a stamp, in the language of the request. Raises LookupError if the class
    does not show them now."""
    with _COMPUTING:
        return _charts(code, stamp, in_language)


def delete_expired_classes() -> None:
    """Deletes the classes whose hours are over, and what this process computed of any class."""
    classes().delete_expired()
    forget_results()


def forget_results() -> None:
    """Forgets what this process computed of classes; it is computed again when it is read."""
    _state.cache_clear()
    _charts.cache_clear()


@lru_cache(maxsize=64)
def _state(code: str, version: str, in_language: str) -> Json:
    return shared_state(classes().open(code))


@lru_cache(maxsize=64)
def _charts(code: str, stamp: str, in_language: str) -> tuple[bytes, ...]:
    results = closed_results(classes().open(code), stamp)
    if results is None:
        raise LookupError(stamp)
    charts = result_charts(results[0], revealed=results[1])
    return tuple(packed_chart(chart, number) for number, (_title, chart) in enumerate(charts))
