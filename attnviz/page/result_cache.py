"""Results that are computed once: states and views ask for them by what they depend on.

Keys are text: the `repr` of what a result depends on. A program keeps the latest ones; the app sets its own cache,
which all visitors share.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from attnviz.base.language import current_language
from attnviz.base.turns import turn
from attnviz.layer import Layer
from attnviz.sources import Source

T = TypeVar("T")
MISSING = object()
# What the run of a page, or a job, has asked for, by the cache and the key; None outside of one.
_of_run: ContextVar[dict[tuple["ResultCache", Hashable], Any] | None] = ContextVar("results of a run", default=None)


@contextmanager
def run_results() -> Iterator[None]:
    """Keeps all results that the block asks for until it ends: it computes none twice, whatever others ask for."""
    token = _of_run.set({})
    try:
        yield
    finally:
        _of_run.reset(token)


class ResultCache:
    """The latest results; the least recently used one is dropped first."""

    def __init__(self, max_results: int = 64) -> None:
        self.max_results = max_results
        self._results: OrderedDict[str, Any] = OrderedDict()
        self._lock = threading.Lock()

    def once(self, compute: Callable[[], T], *key: object, work: int = 0) -> T:
        """Returns the result of `compute`, cached under these keys. `work` is the approximate number of its steps."""
        name = repr((current_language(), *key))  # results may have words in them
        return self._hold(name, lambda: self._once(compute, name, work))

    def _once(self, compute: Callable[[], T], name: str, work: int) -> T:
        if (result := self._find(name)) is not MISSING:
            return result
        with turn(work):
            if (result := self._find(name)) is not MISSING:  # computed by another thread meanwhile
                return result
            result = compute()
            with self._lock:
                self._results[name] = result
                if len(self._results) > self.max_results:
                    self._results.popitem(last=False)
            return result

    def _hold(self, key: Hashable, find: Callable[[], T]) -> T:
        """Returns what the run has under this key, or else what `find` returns, which it has from now on."""
        kept = _of_run.get()
        if kept is None:
            return find()
        if (self, key) not in kept:
            kept[self, key] = find()
        result: T = kept[self, key]
        return result

    def layers(self, source: Source) -> Sequence[Layer]:
        """Returns the layers of a source. Raises ValueError if they cannot be made."""
        if source.keeps_layers:
            return self._hold(source, source.layers)
        return self.once(source.layers, "layers", source, work=source.work)

    def refined(self, compute: Callable[[], T], *key: object, work: int) -> T:
        """Returns a result that may be shown before the whole of it is computed."""
        return self.once(compute, *key, work=work)

    def growing(self, compute: Callable[[], T], *key: object, work: int) -> T:
        """Returns a result, or what there is of it while it grows."""
        return self.once(compute, *key, work=work)

    def finished(self, *key: object) -> Any:
        """Returns the result of `refined` if the whole of it is computed and shown; otherwise None."""
        return None

    def drop(self) -> None:
        """Drops all results."""
        with self._lock:
            self._results.clear()

    def _find(self, name: str) -> Any:
        with self._lock:
            if name in self._results:
                self._results.move_to_end(name)
            return self._results.get(name, MISSING)


_caches = [ResultCache()]


def result_cache() -> ResultCache:
    """Returns the cache of this program."""
    return _caches[-1]


def set_result_cache(cache: ResultCache) -> None:
    """Sets the cache that states and views ask."""
    _caches[:] = [cache]
