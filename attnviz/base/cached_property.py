"""A property that is computed once for each object."""

import functools
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or sys.version_info >= (3, 12):
    cached_property = functools.cached_property
else:

    class cached_property(functools.cached_property):
        """functools.cached_property without the lock of Python 3.11, which is one for all objects of a class: whoever
        computes one, and waits for a turn, would stop everybody else, who may have what it waits for."""

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            value = instance.__dict__[self.attrname] = self.func(instance)
            return value
