"""A matrix whose every number knows what it was made from."""

from dataclasses import dataclass

from jaxtyping import Bool, Float
from torch import Tensor

from attnviz.formatting import fixed, significant


@dataclass(frozen=True)
class CellRange:
    """Cells that a number was made from: a rectangle of one matrix."""

    matrix: str
    rows: range
    columns: range


class Operation:
    """What makes a matrix of others, and writes one of its cells out."""

    def __call__(self, *sources: Tensor) -> Float[Tensor, "rows columns"]:
        raise NotImplementedError

    def operands(self, row: int, column: int, *sources: "Matrix") -> tuple[CellRange, ...]:
        """Returns the cells that one cell is made from: here, those at the same place."""
        return tuple(CellRange(source.name, range(row, row + 1), range(column, column + 1)) for source in sources)

    def formula(self, row: int, column: int, *sources: "Matrix") -> str:
        """Returns the sum that makes one cell, with its numbers and without its result."""
        raise NotImplementedError

    def columns(self, *sources: "Matrix") -> tuple[str, ...]:
        """Returns the names of the columns; the rows have those of the first source."""
        return sources[0].columns


@dataclass(frozen=True, eq=False)
class Matrix:
    """One matrix of the computation: its numbers, and what they were made from.

    `values` differ from `computed` where a number was written by hand.
    """

    name: str
    symbol: str  # as in a formula; an index follows _, and T for transposed ^
    about: str
    stage: str  # the name of the stage that makes it
    head: int | None  # None: of all heads
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    of_queries: bool  # whether a row belongs to a query
    operation: Operation
    sources: tuple["Matrix", ...]
    computed: Float[Tensor, "rows columns"]
    values: Float[Tensor, "rows columns"]
    edited: Bool[Tensor, "rows columns"]

    def operands(self, row: int, column: int) -> tuple[CellRange, ...]:
        """Returns the cells that this one was made from: none if it was given, or written by hand."""
        return () if self.edited[row, column] else self.operation.operands(row, column, *self.sources)

    def formula(self, row: int, column: int) -> str:
        """Returns how this cell was computed, with its numbers: “0.41·0.20 + 0.13·0.55 = 0.15”."""
        value, computed = (cell_number(float(one[row, column])) for one in (self.values, self.computed))
        if self.edited[row, column]:
            return f"{value}, written by hand instead of {computed}"
        written = self.operation.formula(row, column, *self.sources)
        return f"{written} = {value}" if self.sources else f"{value}, {written}"


def cell_number(value: float) -> str:
    """A number with two decimals, or with its first significant digit where these would be 0.00.

    >>> cell_number(0.126), cell_number(-0.004)
    ('0.13', '−0.004')
    """
    return significant(value, 1) if value and not round(value, 2) else fixed(value)


def term(value: float, first: bool = False) -> str:
    """A number within a sum: a negative one is in parentheses, unless it is the first."""
    return cell_number(value) if first or value >= 0 else f"({cell_number(value)})"
