"""Products of tensors that are summed over axes, with names of the axes: equal names are multiplied with each other."""

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias

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


def matmul_axes(a: Tensor, b: Tensor) -> Contraction:
    """Returns the axes of `torch.matmul`. Those of a batch are numbers, from the last."""
    of_a = (*range(2 - a.ndim, 0), "rows", "summed") if a.ndim > 1 else ("summed",)
    of_b = (*range(2 - b.ndim, 0), "summed", "columns") if b.ndim > 1 else ("summed",)
    batch = range(2 - max(a.ndim, b.ndim, 2), 0)
    return Contraction(((a, of_a), (b, of_b)), (*batch, *("rows",) * (a.ndim > 1), *("columns",) * (b.ndim > 1)))


def linear_axes(a: Tensor, weight: Tensor) -> Contraction:
    """Returns the axes of `F.linear`, without its bias."""
    of_a = (*range(1 - a.ndim, 0), "summed")
    return Contraction(((a, of_a), (weight, ("columns", "summed")[-weight.ndim :])), (*of_a[:-1], "columns"))


def einsum_axes(equation: object, *operands: Any) -> Contraction | None:
    """Returns the axes of `torch.einsum`. Those of an ellipsis are numbers, from the last.

    None if they are given in its other form, as lists of numbers.
    """
    if not isinstance(equation, str):
        return None
    tensors: Sequence[Tensor] = operands[0] if isinstance(operands[0], list | tuple) else operands
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
