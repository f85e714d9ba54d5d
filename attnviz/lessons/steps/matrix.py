"""A matrix whose every number knows what it was made from."""

from dataclasses import dataclass

from jaxtyping import Bool, Float
from torch import Tensor

from attnviz.formatting import fixed, significant


@dataclass(frozen=True)
class Part:
    """Cells that a number was made from: a rectangle of one matrix."""

    matrix: str
    rows: range
    columns: range


class How:
    """How a matrix is made of others, and how one of its cells is written out."""

    def __call__(self, *sources: Tensor) -> Float[Tensor, "rows columns"]:
        raise NotImplementedError

    def parts(self, row: int, column: int, *sources: "Matrix") -> tuple[Part, ...]:
        """The cells that one cell is made from; unless it is said otherwise, those at the same place."""
        return tuple(Part(source.name, range(row, row + 1), range(column, column + 1)) for source in sources)

    def words(self, row: int, column: int, *sources: "Matrix") -> str:
        """The sum that makes one cell, with its numbers and without what comes out."""
        raise NotImplementedError

    def columns(self, *sources: "Matrix") -> tuple[str, ...]:
        """The names of its columns; its rows are named as those of the first source."""
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
    how: How
    sources: tuple["Matrix", ...]
    computed: Float[Tensor, "rows columns"]
    values: Float[Tensor, "rows columns"]
    edited: Bool[Tensor, "rows columns"]

    def parts(self, row: int, column: int) -> tuple[Part, ...]:
        """The cells that this one was made from: none if it was given, or written by hand."""
        return () if self.edited[row, column] else self.how.parts(row, column, *self.sources)

    def words(self, row: int, column: int) -> str:
        """How this cell came about, as a sum with its numbers: “0.41·0.20 + 0.13·0.55 = 0.15”."""
        value, computed = (number(float(one[row, column])) for one in (self.values, self.computed))
        if self.edited[row, column]:
            return f"{value}, written by hand instead of {computed}"
        written = self.how.words(row, column, *self.sources)
        return f"{written} = {value}" if self.sources else f"{value}, {written}"


def number(value: float) -> str:
    """A number as it is read, with two decimals; one that would read as 0.00 with its first digit that counts."""
    return significant(value, 1) if value and not round(value, 2) else fixed(value)


def term(value: float, first: bool = False) -> str:
    """A number within a sum: in parentheses if it is negative, unless the sum begins with it."""
    return number(value) if first or value >= 0 else f"({number(value)})"
