"""What a page has computed, by name, for the checks of a lesson and the questions of a class."""

from collections.abc import Callable

from attnviz.lessons.checks import Quantities
from attnviz.ui.session_values import SessionValue

_PUBLISHED = SessionValue[tuple[Callable[[], Quantities], str]]("quantities", lambda: (dict, ""))


def publish(compute: Callable[[], Quantities], query: str = "") -> None:
    """Gives lessons and classes the quantities of this run, computed if they are asked for, and the name of the query
    that they are about."""
    _PUBLISHED.set((compute, query))


def collect() -> Quantities:
    """Computes the quantities of this run; none if the page has none."""
    return _PUBLISHED.get()[0]()


def query() -> str:
    """Returns the name of the query that the quantities of this run are about, or no text."""
    return _PUBLISHED.get()[1]


def discard() -> None:
    """Drops what is published, and with it the arrays that it refers to."""
    _PUBLISHED.pop()
