"""A device beside the CPU, on machines that have none: its tensors have numbers, but refuse to meet those of the CPU.

torch's "meta" device stands for it. A tensor of it is a wrapper around one on the CPU; what is made for the device
becomes such a wrapper, and an operation on wrappers and on whole tensors of the CPU raises as it does with a GPU.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

DEVICE = torch.device("meta")
COPIES = (torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default)
INDEXING = (torch.ops.aten.index.Tensor, torch.ops.aten.index_put_.default, torch.ops.aten.index_put.default)


class OtherTensor(Tensor):
    """A tensor that says it is on the other device."""

    inner: Tensor
    is_meta = False  # it has numbers

    @staticmethod
    def __new__(cls, inner: Tensor) -> "OtherTensor":
        wrapper = Tensor._make_wrapper_subclass(
            cls, inner.shape, strides=inner.stride(), dtype=inner.dtype, device=DEVICE
        )
        wrapper.inner = inner
        return wrapper

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, function: Callable, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return computed(function, args, kwargs or {})

    def __getitem__(self, index: Any) -> Any:
        parts = index if isinstance(index, tuple) else (index,)
        # torch would make index tensors of lists on the device itself, where they are without numbers.
        return super().__getitem__(tuple(torch.tensor(one) if isinstance(one, list) else one for one in parts))

    def tolist(self) -> Any:
        return self.inner.tolist()

    def numpy(self, **_: Any) -> Any:  # type: ignore[override]
        raise TypeError("A tensor of another device has no NumPy array. Use Tensor.cpu() first.")

    __array__ = numpy

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        return f"OtherTensor({self.inner!r})"


class _Mode(TorchDispatchMode):
    """Makes tensors for the other device."""

    def __torch_dispatch__(self, function: Callable, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return computed(function, args, kwargs or {})


def computed(function: Callable, args: Any, kwargs: dict[str, Any]) -> Any:
    leaves = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    others = [leaf for leaf in leaves if isinstance(leaf, OtherTensor)]
    if others and function not in COPIES:
        checked = [args[0]] if function in INDEXING else leaves  # a GPU's tensor takes indices of the CPU
        if any(not isinstance(leaf, OtherTensor) and leaf.ndim for leaf in checked):
            raise RuntimeError(f"Expected all tensors to be on the same device in {function}.")
    device, target = kwargs.get("device"), bool(others)
    if device is not None:
        target = torch.device(device) == DEVICE
        kwargs = kwargs | {"device": torch.device("cpu")}
    elif function is COPIES[1]:
        target = isinstance(args[0], OtherTensor)
    result = function(*tree_map(_inner, args), **tree_map(_inner, kwargs))
    if function is COPIES[1] or getattr(function, "__name__", "").split(".")[0].endswith("_"):
        return args[0]  # it was changed in place
    return tree_map(lambda one: OtherTensor(one) if isinstance(one, Tensor) else one, result) if target else result


def _inner(value: Any) -> Any:
    return value.inner if isinstance(value, OtherTensor) else value


@contextmanager
def other_device() -> Iterator[torch.device]:
    """Yields the device, for `tensor.to(device)` and for what makes tensors."""
    make = torch.tensor

    def tensor(values: Any, *, device: Any = None, **options: Any) -> Tensor:
        made = make(values, **options)  # torch would make it on the device itself, where it is without numbers
        return made if device is None else made.to(device)

    with patch.object(torch, "tensor", tensor), _Mode():
        yield DEVICE
