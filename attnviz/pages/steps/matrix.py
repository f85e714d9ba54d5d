"""Matrices whose numbers have operands and formulas."""

from dataclasses import dataclass

from jaxtyping import Bool, Float
from torch import Tensor

from attnviz.base.formatting import fixed, significant


@dataclass(frozen=True)
class CellRange:
    """A rectangle of cells of one matrix, as operands of a number."""

    matrix: str
    rows: range
    columns: range


class Operation:
    """An operation that computes a matrix from others and writes out single cells."""

    def __call__(self, *sources: Tensor) -> Float[Tensor, "rows columns"]:
        raise NotImplementedError

    def operands(self, row: int, column: int, *sources: "Matrix") -> tuple[CellRange, ...]:
        """Returns the operands of one cell; by default, the cells at the same place."""
        return tuple(CellRange(source.name, range(row, row + 1), range(column, column + 1)) for source in sources)

    def formula(self, row: int, column: int, *sources: "Matrix") -> str:
        """Returns the formula of one cell with numbers, without the result."""
        raise NotImplementedError

    def columns(self, *sources: "Matrix") -> tuple[str, ...]:
        """Returns the names of the columns; the rows have the names of the first source."""
        return sources[0].columns


@dataclass(frozen=True, eq=False)
class Matrix:
    """One matrix of the computation: its numbers and the operation that computed them.

    `values` and `computed` differ where a number was edited.
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
        """Returns the operands of a cell; none if it is an input or was edited."""
        return () if self.edited[row, column] else self.operation.operands(row, column, *self.sources)

    def formula(self, row: int, column: int) -> str:
        """Returns the formula of a cell with its result, such as “0.41·0.20 + 0.13·0.55 = 0.15”."""
        value, computed = (cell_number(float(one[row, column])) for one in (self.values, self.computed))
        if self.edited[row, column]:
            return f"{value}, written by hand instead of {computed}"
        written = self.operation.formula(row, column, *self.sources)
        return f"{written} = {value}" if self.sources else f"{value}, {written}"


def column_names(count: int) -> tuple[str, ...]:
    """Returns the names of the columns of vectors: “1”, “2” …"""
    return tuple(str(i + 1) for i in range(count))


def cell_number(value: float) -> str:
    """Formats a number with two decimals, or with one significant digit if it would be 0.00.

    >>> cell_number(0.126), cell_number(-0.004)
    ('0.13', '−0.004')
    """
    return significant(value, 1) if value and not round(value, 2) else fixed(value)


def term(value: float, first: bool = False) -> str:
    """Formats a term of a sum: negative numbers are in parentheses, except the first one."""
    return cell_number(value) if first or value >= 0 else f"({cell_number(value)})"
