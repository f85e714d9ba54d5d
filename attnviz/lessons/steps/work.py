"""The matrices as they are made, one after the other; and what an example gives to begin with."""

import torch
from jaxtyping import Float
from torch import Tensor

from attnviz.lessons.steps.edits import LARGEST, Edits
from attnviz.lessons.steps.matrix import How, Matrix
from attnviz.lessons.steps.operations import Given, Masked
from attnviz.mechanism import Mechanism

Head = tuple[Matrix, Matrix, Matrix]  # queries, keys and values


class Kind:
    """A kind of example: where queries, keys and values come from, and how they attend.

    It is a frozen dataclass, whose repr is what was asked.
    """

    @property
    def vectors(self) -> str:
        """Where queries, keys and values come from, in a sentence."""
        raise NotImplementedError

    def begin(self, work: "Work") -> tuple[Mechanism, list[Head]]:
        """Makes the queries, keys and values of each head, and says how they attend.

        Raises ValueError, in words, for an example that cannot be written out.
        """
        raise NotImplementedError


class Work:
    """The matrices that are there by now, with the numbers that were written by hand in the place of their own."""

    def __init__(self, edits: Edits) -> None:
        self.edits = edits
        self.matrices: dict[str, Matrix] = {}

    def given(
        self,
        name: str,
        symbol: str,
        about: str,
        numbers: Float[Tensor, "rows columns"],
        rows: tuple[str, ...],
        why: str,
        *,
        stage: str = "vectors",
        head: int | None = None,
        of_queries: bool = False,
    ) -> Matrix:
        """A matrix that nothing here computes; `why` says where its numbers come from."""
        columns = numbered(numbers.shape[1])
        return self._add(name, symbol, about, stage, Given(numbers, why), (), rows, columns, head, of_queries)

    def add(
        self,
        name: str,
        symbol: str,
        about: str,
        stage: str,
        how: How,
        *sources: Matrix,
        head: int | None = None,
        of_queries: bool = True,
    ) -> Matrix:
        """A matrix made of others."""
        columns = how.columns(*sources)
        return self._add(name, symbol, about, stage, how, sources, sources[0].rows, columns, head, of_queries)

    def _add(
        self,
        name: str,
        symbol: str,
        about: str,
        stage: str,
        how: How,
        sources: tuple[Matrix, ...],
        rows: tuple[str, ...],
        columns: tuple[str, ...],
        head: int | None,
        of_queries: bool,
    ) -> Matrix:
        computed = how(*(source.values for source in sources))
        values, edited = computed.clone(), torch.zeros(computed.shape, dtype=torch.bool)
        for (row, column), value in self.edits.get(name, {}).items():
            if not (0 <= row < len(rows) and 0 <= column < len(columns)):
                size = f"{len(rows)} × {len(columns)}"
                raise ValueError(f"There is no row {row}, column {column} in {name}, which is {size}, counted from 0.")
            if not abs(value) <= LARGEST:
                raise ValueError(
                    f"A number between −{LARGEST} and {LARGEST} is expected; {value} was written. "
                    "Write another one, or nothing to have it computed again."
                )
            values[row, column], edited[row, column] = value, True
        if not bool((values.isfinite() | values.isneginf() & isinstance(how, Masked)).all()):
            raise ValueError("A row would add up to 0, and nothing can be divided by that. Write another number.")
        self.matrices[name] = Matrix(
            name, symbol, about, stage, head, rows, columns, of_queries, how, sources, computed, values, edited
        )
        return self.matrices[name]


def numbered(count: int) -> tuple[str, ...]:
    """Names of so many columns of a vector."""
    return tuple(str(i + 1) for i in range(count))
