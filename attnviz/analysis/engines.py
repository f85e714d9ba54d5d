"""Engines, which compute independent tasks: here on the threads of this machine."""

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Protocol, TypeVar, runtime_checkable

import torch

Shared = TypeVar("Shared")
Task = TypeVar("Task")
Result = TypeVar("Result")


@runtime_checkable
class Engine(Protocol):
    """Computes independent tasks, on one machine or many."""

    def map(
        self, function: Callable[[Shared, Task], Result], shared: Shared, tasks: Sequence[Task]
    ) -> Iterator[Result]:
        """Yields function(shared, task) for each task, in their order, so that the results can be merged to the same
        bits by every engine.

        `function` is one of a module, not a lambda. Closing the iterator cancels what has not begun.
        """


@dataclass(frozen=True)
class Local:
    """The threads of this machine; by default as many as there are cores that torch's own threads leave.

    Example:
        >>> from operator import mul
        >>> list(Local(threads=2).map(mul, 3, [1, 2, 3]))
        [3, 6, 9]
    """

    threads: int | None = None

    def map(
        self, function: Callable[[Shared, Task], Result], shared: Shared, tasks: Sequence[Task]
    ) -> Iterator[Result]:
        threads = self.threads or max(1, (os.cpu_count() or 1) // torch.get_num_threads())
        if min(threads, len(tasks)) <= 1:
            yield from (function(shared, task) for task in tasks)
            return
        with ThreadPoolExecutor(threads) as pool:
            waiting: deque[Future[Result]] = deque()
            remaining = iter(tasks)
            try:
                # Few ahead of the one that is yielded, so that few results are held.
                waiting.extend(pool.submit(function, shared, task) for task in islice(remaining, 2 * threads))
                while waiting:
                    yield waiting.popleft().result()
                    waiting.extend(pool.submit(function, shared, task) for task in islice(remaining, 1))
            finally:
                for future in waiting:
                    future.cancel()
