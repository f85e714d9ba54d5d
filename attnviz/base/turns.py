"""Turns of heavy work: the visitors of the app share a computer, and what takes longer than a click waits its turn."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TypeAlias

Turn: TypeAlias = Callable[[int], AbstractContextManager[None]]
HEAVY_WORK = 10_000_000  # steps: more take longer than a click should
SHORT_WORK = 10 * HEAVY_WORK  # steps: as many take about a second
_turns: list[Turn] = [lambda work: nullcontext()]


def is_heavy(work: int) -> bool:
    """Returns whether `work` steps take about 0.1 seconds or more."""
    return work > HEAVY_WORK


def turn(work: int) -> AbstractContextManager[None]:
    """Returns a context in which `work` steps of computation are done: at once in a program, in turn in the app."""
    return _turns[-1](work)


def set_turns(make: Turn) -> None:
    """Sets the function that returns these contexts."""
    _turns[:] = [make]
