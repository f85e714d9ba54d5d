"""The memory of layers."""

from collections.abc import Iterable, Iterator
from dataclasses import is_dataclass

from torch import Tensor

from attnviz.layer import Layer


def layer_bytes(layers: Iterable[Layer]) -> int:
    """Returns the memory of the vectors or weights of layers, and of the tables and parameters in their mechanisms, in
    bytes; tensors that share memory count once."""
    storages = [tensor.untyped_storage() for layer in layers for tensor in _tensors(layer)]
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())


def _tensors(part: object) -> Iterator[Tensor]:
    if isinstance(part, Tensor):
        yield part
    elif is_dataclass(part):
        for value in vars(part).values():  # what is mapped from a file is not read
            yield from _tensors(value)
    elif isinstance(part, tuple) and part and not isinstance(part[0], str | int):  # neither tokens nor positions
        for one in part:
            yield from _tensors(one)
