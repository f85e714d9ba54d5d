"""The classes of this server, who listens to their news, and what is computed of them once for all who follow."""

from functools import cache
from threading import Lock

from attnviz.base import settings
from attnviz.classroom.live_class import Classes
from attnviz.classroom.store_address import open_store
from attnviz.page.result_cache import ResultCache
from attnviz.ui.classroom.class_json import Json, shared_state
from attnviz.ui.classroom.watcher import Watcher

_COMPUTING = Lock()  # a whole class asks at once for what is computed for the first
_RESULTS = ResultCache(128)  # in the languages of the requests


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


def state_for_all(code: str, version: str) -> Json:
    """Returns what everybody sees of a class at a version."""
    with _COMPUTING:
        return _RESULTS.once(lambda: shared_state(classes().open(code)), "state", code, version)


def delete_expired_classes() -> None:
    """Deletes the classes whose hours are over, and what this process computed of any class."""
    classes().delete_expired()
    forget_results()


def forget_results() -> None:
    """Forgets what this process computed of classes; it is computed again when it is read."""
    _RESULTS.drop()
