"""A mask given cell by cell: painted, pasted or uploaded."""

import io
import math
import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, Any

import numpy as np
from jaxtyping import Bool
from torch import Tensor

from attnviz.base.formatting import grouped, quoted
from attnviz.base.language import _, plural, value_error
from attnviz.base.npy import read_npy
from attnviz.base.plain_tensor import plain_tensor
from attnviz.masks.mask import Array, Mask
from attnviz.masks.terms import take

LONGEST_SIDE = 512  # rows, and columns
LINE = 1 << 14  # characters: 512 numbers with as many digits as numpy.savetxt writes
MOST_FILE_BYTES = LONGEST_SIDE * LINE  # bytes of a file
CELL_WORDS = {"1": True, "true": True, "x": True, "0": False, "false": False, ".": False}
Bits = Annotated[int, "cells"]  # a number that the language writes as 0x…, however long


@dataclass(frozen=True, repr=False)
class Grid(Mask):
    """Each pair as it was painted: a query sees the keys whose cells in its row are set.

    `cells` is one number, whose binary digits are the cells, row by row. Outside the grid nothing is allowed. A cell
    stands for a `block` of neighboring queries and as many keys: a block-sparse mask, if it is more than one.

    Example:
        >>> Grid.from_array([[1, 0], [1, 1]]).matrix(2, 2).long()
        tensor([[1, 0],
                [1, 1]])
    """

    rows: int
    columns: int
    cells: Bits
    block: int = field(default=1, metadata={"min": 1, "max": 131072})

    def __post_init__(self) -> None:
        _check_size(self.rows, self.columns)
        super().__post_init__()
        count = self.rows * self.columns
        if not 0 <= self.cells < 1 << count:
            raise value_error(
                "A grid of {rows} × {columns} has {count} cells; the number has more.",
                rows=self.rows,
                columns=self.columns,
                count=grouped(count),
            )

    @classmethod
    def from_array(cls, array: Any, block: int = 1) -> "Grid":
        """Returns the grid of a matrix (queries, keys) of True and False, or of 1 and 0, a cell for each block.

        Raises ValueError if it is not a matrix, is too large, or holds anything else.
        """
        if np.ma.is_masked(array):
            raise value_error("This matrix is masked itself. Give it with 0 or 1 in each cell: array.filled(0).")
        if isinstance(array, Tensor):
            array = plain_tensor(array.detach().cpu(), "This matrix")
            array = array.float() if array.is_floating_point() else array
        try:
            matrix = np.asarray(array)
        except (ValueError, TypeError, RuntimeError) as error:
            raise value_error("This is not a matrix. Give a grid equally long rows of 0 and 1.") from error
        _check_matrix(matrix.dtype, matrix.shape)
        wrong = np.argwhere((matrix != 0) & (matrix != 1))
        if len(wrong):
            row, column = map(int, wrong[0])
            raise ValueError(_refusal(row, column, str(matrix[row, column])))
        rows, columns = matrix.shape
        spare = -rows * columns % 8
        return cls(rows, columns, int.from_bytes(np.packbits(matrix != 0).tobytes(), "big") >> spare, block)

    @classmethod
    def read(cls, name: str | None, data: bytes | str) -> "Grid":
        """Returns the grid in a text of 0 and 1 (or true and false, or x and .), one line a query, or in a .npy file.

        The cells of a line stand side by side, or are set apart by commas, semicolons, tabs or spaces.
        Raises ValueError, with the line and the column, for anything else.
        """
        if len(data) > MOST_FILE_BYTES:
            raise value_error(
                "This is more than {size} MB. A grid has at most {most} rows and {most} columns.",
                size=MOST_FILE_BYTES >> 20,
                most=LONGEST_SIDE,
            )
        if isinstance(data, bytes) and (data.startswith(b"\x93NUMPY") or (name or "").lower().endswith(".npy")):
            return cls.from_array(read_npy(data, _check_matrix))
        try:
            text = data.decode("utf-8-sig") if isinstance(data, bytes) else data.removeprefix("\ufeff")
        except UnicodeDecodeError as error:
            raise value_error("This file is neither text in UTF-8 nor a .npy file. Save it as one of them.") from error
        rows = list(_read_rows(text))
        if not rows:
            raise value_error("There are no cells here. Give one line for each query, with 0 or 1 for each key.")
        return cls.from_array(np.array(rows))

    def array(self) -> Bool[np.ndarray, "queries keys"]:
        """Returns the cells as a matrix, True where the query of the row may attend to the key of the column."""
        count = self.rows * self.columns
        packed = (self.cells << -count % 8).to_bytes((count + 7) // 8, "big")
        return np.unpackbits(np.frombuffer(packed, np.uint8), count=count).reshape(self.rows, self.columns).astype(bool)

    def __call__(self, b: Array, h: Array, q: Array, k: Array) -> Array:
        if self.block > 1:
            q, k = q // self.block, k // self.block
        inside = (q >= 0) & (q < self.rows) & (k >= 0) & (k < self.columns)
        place = q.clamp(min=0, max=self.rows - 1) * self.columns + k.clamp(min=0, max=self.columns - 1)
        return inside & (take(_table(self), place) == 1)

    def bind(self, queries: int, keys: int, heads: int) -> Mask:
        if (-(-queries // self.block), -(-keys // self.block)) != (self.rows, self.columns):
            if self.block > 1:
                raise value_error(
                    "The grid is {rows} × {columns} blocks of {block}; here there are {queries} "
                    "queries and {keys} keys. Use a grid that was made for these numbers.",
                    rows=self.rows,
                    columns=self.columns,
                    block=self.block,
                    queries=grouped(queries),
                    keys=grouped(keys),
                )
            raise value_error(
                "The grid is {rows} × {columns}; here there are {queries} queries and {keys} keys. "
                "Paint or upload one of {queries} × {keys}, or use an example of {rows} queries "
                "and {columns} keys.",
                rows=self.rows,
                columns=self.columns,
                queries=queries,
                keys=keys,
            )
        return self

    def condition(self) -> str:
        values = {"count": grouped(self.cells.bit_count()), "rows": self.rows, "columns": self.columns}
        if self.block == 1:
            return _("their cell is one of the {count} that are set in a grid of {rows} × {columns}", **values)
        return _(
            "their cell is one of the {count} that are set in a grid of {rows} × {columns} blocks of {block} × {block}",
            **values,
            block=self.block,
        )

    def __str__(self) -> str:
        return f"grid({self._arguments()})"

    def __repr__(self) -> str:
        # Python refuses to write so long a number in decimal.
        return f"Grid({self._arguments()})"

    def _arguments(self) -> str:
        cells = f"0x{self.cells:0{(self.rows * self.columns + 3) // 4}x}"
        return f"{self.rows}, {self.columns}, {cells}" + f", {self.block}" * (self.block > 1)


@lru_cache(maxsize=16)
def _table(grid: Grid) -> array:
    """Returns the cells, row by row."""
    return array("b", grid.array().tobytes())


def _check_size(rows: int, columns: int) -> None:
    if not (1 <= rows <= LONGEST_SIDE and 1 <= columns <= LONGEST_SIDE):
        raise value_error(
            "A grid has 1 to {most} rows and columns; this one has {rows} × {columns}.",
            most=LONGEST_SIDE,
            rows=rows,
            columns=columns,
        )


def _check_matrix(dtype: np.dtype, shape: tuple[int, ...]) -> None:
    if dtype.kind not in "biuf":
        raise value_error(
            "This holds {dtype}, which are not cells of a grid. Give it 0 and 1, or False and True.", dtype=dtype
        )
    if len(shape) != 2:
        raise value_error(
            "A grid has two axes, queries and keys; this has the shape {shape}. Choose one head of it.", shape=shape
        )
    _check_size(*shape)


def _read_rows(text: str) -> Iterator[list[bool]]:
    """Yields the cells of each line that is not blank."""
    width = first = 0
    filled = ((n, line) for n, line in enumerate(io.StringIO(text, newline=None), 1) if line.strip())
    for row, (n, line) in enumerate(filled):
        cells = _split(line[: LINE + 1])
        if not row:
            width, first = len(cells), n
        if row >= LONGEST_SIDE or len(cells) > LONGEST_SIDE or len(line) > LINE:
            raise value_error(
                "Line {n} is beyond the {most} rows and {most} columns that a grid has at most.", n=n, most=LONGEST_SIDE
            )
        if len(cells) != width:
            raise ValueError(
                plural(
                    "Line {n} has {count} cell, but line {first} has {width}. Give every line the same number.",
                    "Line {n} has {count} cells, but line {first} has {width}. Give every line the same number.",
                    len(cells),
                    n=n,
                    count=len(cells),
                    first=first,
                    width=width,
                )
            )
        yield [_read_cell(n, column, cell) for column, cell in enumerate(cells)]


def _split(line: str) -> list[str]:
    mark = next((mark for mark in ",;\t" if mark in line), None)
    pieces = line.strip(" \n").split(mark)
    if mark is None:
        # Cells may stand side by side: 1100, or xx..
        pieces = [one for piece in pieces for one in (piece if re.fullmatch("[01]+|[xX.]+", piece) else [piece])]
    return [piece.strip().strip("\"'") for piece in pieces]


def _read_cell(line: int, column: int, cell: str) -> bool:
    value = CELL_WORDS.get(cell.lower())
    if value is not None:
        return value
    try:
        number = float(cell)
    except ValueError:
        number = math.nan
    if number not in (0, 1):
        raise ValueError(_refusal(line - 1, column, cell, "Line"))
    return number == 1


def _refusal(row: int, column: int, text: str, axis: str = "Row") -> str:
    holds = f"holds {quoted(text)}" if text else "is empty"
    return f"{axis} {row + 1}, column {column + 1} {holds}. A cell is 0 or 1; leave out headings and names of tokens."
