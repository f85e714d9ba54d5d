"""How often somebody may do something, so that one person's flood is not everybody's wait."""

import time
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock

MOST_NAMES = 10_000  # that are remembered; of more, those that were idle longest are forgotten


class RateLimit:
    """A token bucket for each name: `burst` at once, and then `per_second`.

    Example:
        >>> limit = RateLimit(2, 1.0, lambda: 0.0)
        >>> [limit.take("Ada") for _ in range(3)], limit.take("Bob")
        ([True, True, False], True)
    """

    def __init__(self, burst: int, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.burst, self.per_second, self._clock = burst, per_second, clock
        self._tokens: OrderedDict[str, tuple[float, float]] = OrderedDict()  # and when they were counted
        self._lock = Lock()

    def take(self, name: str) -> bool:
        """Takes a token; returns whether there was one."""
        with self._lock:
            tokens = self._count(name)
            self._tokens[name] = (tokens - (tokens >= 1), self._clock())
            self._tokens.move_to_end(name)
            if len(self._tokens) > MOST_NAMES:
                self._tokens.popitem(last=False)
            return tokens >= 1

    def is_spent(self, name: str) -> bool:
        """Returns whether there is no token left; takes none."""
        with self._lock:
            return self._count(name) < 1

    def _count(self, name: str) -> float:
        tokens, when = self._tokens.get(name, (float(self.burst), self._clock()))
        return min(self.burst, tokens + (self._clock() - when) * self.per_second)
