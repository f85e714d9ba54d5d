"""The computation of an example, matrix by matrix, and the interface of examples."""

import torch
from jaxtyping import Float
from torch import Tensor

from attnviz.base.language import value_error
from attnviz.mechanism import Mechanism
from attnviz.pages.steps.edits import LARGEST, Edits
from attnviz.pages.steps.matrix import Matrix, Operation
from attnviz.pages.steps.operations import Input, Masked

HeadMatrices = tuple[Matrix, Matrix, Matrix]  # queries, keys and values


class StepsExample:
    """Makes queries, keys and values, and the mechanism. A frozen dataclass; its repr is a cache key."""

    @property
    def origin(self) -> str:
        """A sentence about where queries, keys and values come from."""
        raise NotImplementedError

    def build(self, computation: "Computation") -> tuple[Mechanism, list[HeadMatrices]]:
        """Adds the first matrices; returns the mechanism and the queries, keys and values of each head.

        Raises ValueError if the example cannot be written out.
        """
        raise NotImplementedError

    def output_matrix(self) -> tuple[Float[Tensor, "joined width"], str]:
        """Returns Wᴼ, which takes the heads side by side to one output, and a phrase about where it comes from.

        Only examples with several heads have it.
        """
        raise NotImplementedError


class Computation:
    """The matrices computed so far. Edits replace single numbers."""

    def __init__(self, edits: Edits) -> None:
        self.edits = edits
        self.matrices: dict[str, Matrix] = {}

    def add_input(
        self,
        name: str,
        symbol: str,
        about: str,
        numbers: Float[Tensor, "rows columns"],
        rows: tuple[str, ...],
        origin: str,
        stage: str,
        *,
        head: int | None = None,
        of_queries: bool = False,
    ) -> Matrix:
        """Adds a matrix that is not computed here; `origin` is a phrase about where its numbers come from."""
        return self.add(name, symbol, about, stage, Input(numbers, origin), head=head, of_queries=of_queries, rows=rows)

    def add(
        self,
        name: str,
        symbol: str,
        about: str,
        stage: str,
        operation: Operation,
        *sources: Matrix,
        head: int | None = None,
        of_queries: bool = True,
        rows: tuple[str, ...] = (),
    ) -> Matrix:
        """Adds a matrix computed from others, whose rows have the names of the first of them, unless `rows` are given.

        Raises ValueError for an edit that is not a number of the matrix, or makes a later number infinite.
        """
        rows, columns = rows or sources[0].rows, operation.columns(*sources)
        computed = operation(*(source.values for source in sources))
        values, edited = computed.clone(), torch.zeros(computed.shape, dtype=torch.bool)
        for (row, column), value in self.edits.get(name, {}).items():
            if not (0 <= row < len(rows) and 0 <= column < len(columns)):
                size = f"{len(rows)} × {len(columns)}"
                raise value_error(
                    "There is no row {row}, column {column} in {name}, which is {size}, counted from 0.",
                    row=row,
                    column=column,
                    name=name,
                    size=size,
                )
            if not abs(value) <= LARGEST:
                raise value_error(
                    "A number between −{LARGEST} and {LARGEST} is expected; {value} was written. "
                    "Write another one, or nothing to have it computed again.",
                    LARGEST=LARGEST,
                    value=value,
                )
            values[row, column], edited[row, column] = value, True
        if not bool((values.isfinite() | values.isneginf() & isinstance(operation, Masked)).all()):
            raise value_error("A row would add up to 0, and nothing can be divided by that. Write another number.")
        self.matrices[name] = Matrix(
            name, symbol, about, stage, head, rows, columns, of_queries, operation, sources, computed, values, edited
        )
        return self.matrices[name]
