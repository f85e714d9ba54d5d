"""What a step has left in cycles is freed."""

import gc
import weakref

from attnviz.base.memory import free_memory


class Left:
    """An object that knows itself."""

    def __init__(self) -> None:
        self.own = self


def test_cycles_are_freed() -> None:
    gc.disable()
    try:
        left = weakref.ref(Left())
        assert left() is not None
        free_memory()
        assert left() is None
    finally:
        gc.enable()
