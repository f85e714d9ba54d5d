"""A long computation ends when nobody wants its result any more: it asks between its parts."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_check: ContextVar[Callable[[], None] | None] = ContextVar("check", default=None)


@contextmanager
def interruptible(check: Callable[[], None]) -> Iterator[None]:
    """Lets `check` end the computations of the block, by an exception."""
    before = _check.set(check)
    try:
        yield
    finally:
        _check.reset(before)


def end_if_unwanted() -> None:
    """Raises what ends this computation if nobody wants its result; a long computation calls it between its parts."""
    check = _check.get()
    if check is not None:
        check()
