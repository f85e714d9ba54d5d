"""The jobs that write texts: shared by all who open the same link, and stopped when nobody looks."""

from collections.abc import Callable
from functools import cache
from typing import TypeVar

from attnviz.base.settings import writers
from attnviz.ui.server import jobs
from attnviz.ui.server.scheduling import FairSlots

T = TypeVar("T")


@cache
def _line() -> FairSlots:
    return FairSlots(writers())


def request(compute: Callable[..., T], *key: object) -> jobs.Job[T]:
    """Returns the job with these keys, which waits in the line of writers."""
    return jobs.request(compute, *key, line=_line(), stops_at_once=True)
