"""A property of an object is computed once, and while others are computed."""

import threading
from collections.abc import Callable

from attnviz.base.cached_property import cached_property


class Counted:
    """An object whose property is counted."""

    def __init__(self, compute: Callable[[], object] = lambda: None) -> None:
        self.compute, self.computed = compute, 0

    @cached_property
    def value(self) -> int:
        """How often it was computed."""
        self.compute()
        self.computed += 1
        return self.computed


def test_it_is_computed_once() -> None:
    counted = Counted()
    assert (counted.value, counted.value, counted.computed) == (1, 1, 1)
    del counted.value
    assert counted.value == 2
    assert isinstance(Counted.value, cached_property)


def test_one_object_does_not_wait_for_another() -> None:
    begun, other_is_there = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        assert other_is_there.wait(20)

    waiting, other = Counted(wait), Counted()
    threads = [threading.Thread(target=lambda one=one: one.value, daemon=True) for one in (waiting, other)]
    threads[0].start()
    assert begun.wait(20)
    threads[1].start()
    threads[1].join(5)
    is_computed = other.computed == 1
    other_is_there.set()
    threads[0].join(20)
    assert is_computed
    assert waiting.computed == 1
