"""The memory of the uploads of all visitors together."""

import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from attnviz.base.formatting import byte_size
from attnviz.base.language import value_error
from attnviz.base.settings import all_uploads_bytes
from attnviz.layer import Layer
from attnviz.trace.memory import layer_bytes


class UploadMemory:
    """Counts the bytes of layers that were uploaded, until nothing refers to them any more."""

    def __init__(self, limit: Callable[[], int] = all_uploads_bytes) -> None:
        self.limit = limit
        self._total = 0
        self._releases = deque[int]()  # filled by the garbage collector, which may interrupt a thread with the lock
        self._lock = threading.Lock()

    @property
    def total(self) -> int:
        """The bytes of all uploads."""
        with self._lock:
            return self._released_total()

    @contextmanager
    def reserve(self, size: int) -> Iterator[None]:
        """Counts `size` bytes while an upload is read. Raises ValueError if they are beyond the limit."""
        self._add(size)
        try:
            yield
        finally:
            self._releases.append(size)

    def hold(self, layers: Sequence[Layer], size: int) -> None:
        """Counts layers and `size` other bytes that stay with them. Raises ValueError if they are beyond the limit."""
        size += layer_bytes(layers)
        self._add(size)
        weakref.finalize(layers[0], self._releases.append, size).atexit = False

    def _add(self, size: int) -> None:
        with self._lock:
            if (total := self._released_total()) + size > self.limit():
                raise value_error(
                    "The uploads of all visitors together may use {limit}. They use {total} now, "
                    "and this one needs {size}. Upload a smaller file, or try again in a few "
                    "minutes.",
                    limit=byte_size(self.limit()),
                    total=byte_size(total),
                    size=byte_size(size),
                )
            self._total += size

    def _released_total(self) -> int:
        while self._releases:
            self._total -= self._releases.popleft()
        return self._total
