"""A lock for each model, so that one forward pass runs at a time."""

from threading import Lock, RLock
from typing import Any
from weakref import WeakKeyDictionary

from torch import nn

_locks: WeakKeyDictionary[nn.Module, Any] = WeakKeyDictionary()
_making = Lock()


def model_lock(model: nn.Module) -> Any:
    """Returns the reentrant lock of a model, the same for all callers. A model with a head and its base model share it.

    A capture holds it, and so should every other forward pass of the model.
    """
    with _making:
        return _locks.setdefault(getattr(model, "base_model", model), RLock())
