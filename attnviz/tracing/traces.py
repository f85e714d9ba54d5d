"""The traces of several forward passes, in bounded memory."""

from collections import deque
from collections.abc import Iterator, Sequence
from threading import Lock
from typing import overload

from attnviz.base.formatting import byte_size
from attnviz.trace import Trace
from attnviz.trace.memory import layer_bytes


class Traces(Sequence[Trace]):
    """The traces of the forward passes of a model, the oldest first, in at most `max_bytes` of memory.

    `dropped` is the number of older ones, and of single ones that were too large.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes, self.nbytes, self.dropped = max_bytes, 0, 0
        self._traces: deque[tuple[Trace, int]] = deque()
        self._lock = Lock()

    def append(self, trace: Trace) -> None:
        """Adds a trace, and drops the oldest until all fit."""
        size = layer_bytes(trace)
        with self._lock:
            self._traces.append((trace, size))
            self.nbytes += size
            while self.nbytes > self.max_bytes:
                self.nbytes -= self._traces.popleft()[1]
                self.dropped += 1

    @overload
    def __getitem__(self, index: int) -> Trace: ...
    @overload
    def __getitem__(self, index: slice) -> list[Trace]: ...
    def __getitem__(self, index: int | slice) -> Trace | list[Trace]:
        kept = [trace for trace, _ in tuple(self._traces)]
        return kept[index]

    def __iter__(self) -> Iterator[Trace]:
        return iter(self[:])

    def __len__(self) -> int:
        return len(self._traces)

    def __repr__(self) -> str:
        dropped = f"; {self.dropped} dropped, the oldest first" if self.dropped else ""
        count = f"{len(self)} trace{'s' * (len(self) != 1)}"
        return f"Traces({count}, {byte_size(self.nbytes)} of {byte_size(self.max_bytes)}{dropped})"
