"""One forward at a time for each model, whoever asks."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, RLock
from typing import Any
from weakref import WeakKeyDictionary

from torch import nn

_locks: WeakKeyDictionary[nn.Module, Any] = WeakKeyDictionary()
_making = Lock()


@contextmanager
def alone(model: nn.Module) -> Iterator[None]:
    """Waits until nobody else is inside with this model. A capture is; other forwards of the model should be."""
    with _making:
        # A model with a head and the one inside it are one.
        lock = _locks.setdefault(getattr(model, "base_model", model), RLock())
    with lock:
        yield
