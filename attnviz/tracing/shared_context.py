"""A context that several threads can be in at a time."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from threading import Lock
from typing import Any


class SharedContext:
    """A context that the first thread enters and the last one leaves, such as a change of a global setting.

    Example:
        >>> from contextlib import contextmanager
        >>> @contextmanager
        ... def talk():
        ...     print("on")
        ...     yield
        ...     print("off")
        >>> shared = SharedContext(talk)
        >>> with shared, shared:
        ...     print("work")
        on
        work
        off
    """

    def __init__(self, make: Callable[[], AbstractContextManager]) -> None:
        self._make, self._lock, self._count = make, Lock(), 0
        self._context: AbstractContextManager | None = None

    def __enter__(self) -> None:
        with self._lock:
            if not self._count:
                self._context = self._make()
                self._context.__enter__()
            self._count += 1

    def __exit__(self, *error: Any) -> None:
        with self._lock:
            self._count -= 1
            if not self._count and self._context is not None:
                self._context.__exit__(None, None, None)
                self._context = None
