"""One forward at a time for each model, whoever asks."""

from threading import Lock, RLock
from typing import Any
from weakref import WeakKeyDictionary

from torch import nn

_locks: WeakKeyDictionary[nn.Module, Any] = WeakKeyDictionary()
_making = Lock()


def model_lock(model: nn.Module) -> Any:
    """The lock of this model, the same for all who ask, to be held with `with`; who holds it may take it again.

    A capture holds it, and so should every other forward of the model. A model with a head and the one inside it are
    one.
    """
    with _making:
        return _locks.setdefault(getattr(model, "base_model", model), RLock())
