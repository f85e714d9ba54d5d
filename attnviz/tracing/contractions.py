"""Products of tensors that are summed over axes, with names of the axes: equal names are multiplied with each other."""

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

from torch import Tensor

Names: TypeAlias = tuple[Hashable, ...]


@dataclass(frozen=True, eq=False)
class Contraction:
    """A product of tensors with the names of their axes, and of those of its result."""

    operands: tuple[tuple[Tensor, Names], ...]
    result: Names

    @property
    def summed(self) -> list[Hashable]:
        """The axes of several operands that are not in the result."""
        names = [*chain.from_iterable(names for _, names in self.operands)]
        return [name for name in dict.fromkeys(names) if names.count(name) > 1 and name not in self.result]


def matmul(a: Tensor, b: Tensor) -> Contraction:
    """Returns the axes of `torch.matmul`. Those of a batch are numbers, from the last."""
    of_a = (*range(2 - a.ndim, 0), "rows", "summed") if a.ndim > 1 else ("summed",)
    of_b = (*range(2 - b.ndim, 0), "summed", "columns") if b.ndim > 1 else ("summed",)
    batch = range(2 - max(a.ndim, b.ndim, 2), 0)
    return Contraction(((a, of_a), (b, of_b)), (*batch, *("rows",) * (a.ndim > 1), *("columns",) * (b.ndim > 1)))


def linear(a: Tensor, weight: Tensor) -> Contraction:
    """Returns the axes of `F.linear`, without its bias."""
    of_a = (*range(1 - a.ndim, 0), "summed")
    return Contraction(((a, of_a), (weight, ("columns", "summed")[-weight.ndim :])), (*of_a[:-1], "columns"))


def einsum(equation: str, *tensors: Tensor) -> Contraction:
    """Returns the axes of `torch.einsum`. Those of an ellipsis are numbers, from the last."""
    inputs, arrow, output = re.sub(r"\s", "", equation).replace("...", ".").partition("->")
    names = [_names(part, one.ndim) for part, one in zip(inputs.split(","), tensors, strict=True)]
    every = [*chain.from_iterable(names)]
    batch = sorted({name for name in every if isinstance(name, int)})
    if not arrow:
        output = "." + "".join(sorted(name for name in every if isinstance(name, str) and every.count(name) == 1))
    result = _names(output, len(output.replace(".", "")) + len(batch) * output.count("."))
    return Contraction(tuple(zip(tensors, names, strict=True)), result)


def _names(letters: str, count: int) -> Names:
    """Returns the names of `count` axes; a dot stands for those without a letter."""
    batch = range(len(letters.replace(".", "")) - count, 0)
    return tuple(chain.from_iterable(batch if letter == "." else letter for letter in letters))


def operands_of_einsum(args: Sequence[object]) -> Contraction | None:
    """Returns the axes of a call of `torch.einsum`; None if they are given as lists of numbers."""
    equation, *tensors = args
    if len(tensors) == 1 and isinstance(tensors[0], list | tuple):
        tensors = [*tensors[0]]
    return einsum(equation, *tensors) if isinstance(equation, str) else None  # type: ignore[arg-type]
