"""Inputs and weights that lie in a file and are read when they are used."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from attnviz.inputs import LARGEST, Inputs, is_bounded
from attnviz.layer import WeightsOnly

NUMBERS = 1 << 22  # that are checked at a time, so that few are in memory


def row_blocks(tensor: Tensor) -> Iterator[tuple[int, int, Tensor]]:
    """Yields the rows of a tensor of 3 axes in blocks, each with its head and the number of its first row."""
    rows = max(1, NUMBERS // tensor.shape[-1])
    for head, vectors in enumerate(tensor):
        for number, part in enumerate(vectors.split(rows)):
            yield head, number * rows, part


@dataclass(frozen=True, eq=False, repr=False)
class Mapped:
    """Tensors that are mapped from a file, which is read when they are used.

    The numbers of a tensor are checked when it is first used, head by head. Raises ValueError then, with the place, if
    one is not finite; a weight may be NaN, where it is not allowed.
    """

    file: str = ""  # its name, in errors
    _known: set[str] = field(default_factory=set, init=False)  # the tensors whose numbers have been checked

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        if name in ("query", "key", "value", "weights") and name not in self._known:
            self._check_file(name, value)
            self._known.add(name)
        return value

    def _check_numbers(self, name: str, array: Tensor) -> None:
        """Checks nothing yet: numbers are read, and checked, when they are used."""

    def _check_file(self, name: str, tensor: Tensor) -> None:
        for head, first, part in row_blocks(tensor):
            part = part.nan_to_num(0) if name == "weights" else part
            if not is_bounded(part):
                bad = ~(part.float().abs() <= LARGEST).all(-1)
                token = first + int(bad.nonzero()[0, 0])
                raise ValueError(
                    f"{self.file} holds a {name.removesuffix('s')} that is not finite, or larger than "
                    f"{LARGEST:.0e}: that of token {token:,} in head {head}. The file was damaged, or the model "
                    "computes NaN. Capture it again."
                )


@dataclass(frozen=True, eq=False, repr=False)
class MappedInputs(Mapped, Inputs):
    """Inputs whose vectors are mapped from a file."""


@dataclass(frozen=True, eq=False, repr=False)
class MappedWeights(Mapped, WeightsOnly):
    """Weights that are mapped from a file."""
