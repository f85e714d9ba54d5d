"""The cells of a downsampled map: which queries and keys each stands for, and how blocks of rows are merged into them.

Cells are disjoint and cover everything that a map shows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from attnviz.analysis.head_maps import Map, Special
from attnviz.base.cached_property import cached_property
from attnviz.base.language import value_error


@dataclass(frozen=True, eq=False)
class Axis:
    """Neighboring positions that a map shows, in `cells` cells; cell i of c has those from ⌊i n / c⌋ of n."""

    positions: Int[Tensor, " positions"]
    cells: int

    @cached_property
    def starts(self) -> Int[Tensor, " edges"]:
        """The index of each cell's first position, and the number of positions."""
        return torch.arange(self.cells + 1) * len(self.positions) // self.cells

    @cached_property
    def sizes(self) -> Int[Tensor, " cells"]:
        """The number of positions of each cell."""
        return self.starts.diff()

    @cached_property
    def edges(self) -> Int[Tensor, " edges"]:
        """The first position of each cell, and the one after the last."""
        return torch.cat([self.positions[self.starts[:-1]], self.positions[-1:] + 1])


def shown_axis(
    count: int, special_positions: Sequence[int], special: Special, part: slice, cells: int, name: str
) -> Axis:
    """Returns the shown positions within a slice, in at most `cells` cells. Raises ValueError if there are none."""
    if part.step not in (None, 1):
        raise value_error(
            "A part of a map is made of neighbors; the slice has a step of {step}. Leave the step out.", step=part.step
        )
    if cells < 1:
        raise value_error("A map has at least 1 cell along each side; it got {cells}.", cells=cells)
    positions = torch.arange(count)[part]
    if special != Special.SHOWN and special_positions:
        positions = positions[~torch.isin(positions, torch.tensor(special_positions))]
    if not len(positions):
        raise value_error(
            "No {name} is left in this part of the map. Show special tokens, or choose a larger part.", name=name
        )
    return Axis(positions, min(cells, len(positions)))


@dataclass(frozen=True, eq=False)
class CellBlock:
    """The sums of a block of rows for some cells: those of neighboring rows and columns of cells.

    All are of shape (rows of cells, columns of cells), but `queries`, the number of queries of each row of cells that
    are in it.
    """

    top: int
    left: int
    mass: Float[Tensor, "rows columns"]  # the sum of the weights, in double precision
    maximum: Float[Tensor, "rows columns"]  # −∞ where nothing is allowed
    query: Int[Tensor, "rows columns"]
    key: Int[Tensor, "rows columns"]
    allowed: Int[Tensor, "rows columns"]
    queries: Int[Tensor, " rows"]


class CellSums:
    """The sums of blocks over all cells of a map. Blocks are added in a fixed order, so that any two computations of a
    map are equal to the bit."""

    def __init__(self, rows: int, columns: int) -> None:
        self.mass = torch.zeros(rows, columns, dtype=torch.float64)
        self.maximum = torch.full((rows, columns), -torch.inf)
        self.query, self.key = (torch.full((rows, columns), -1) for _ in range(2))
        self.allowed = torch.zeros(rows, columns, dtype=torch.int64)
        self.queries = torch.zeros(rows, dtype=torch.int64)

    def add(self, block: CellBlock) -> None:
        """Adds a block. Of equal maxima the one that came first stays."""
        height, width = block.mass.shape
        rows, columns = slice(block.top, block.top + height), slice(block.left, block.left + width)
        self.mass[rows, columns] += block.mass
        self.allowed[rows, columns] += block.allowed
        self.queries[rows] += block.queries
        better = block.maximum > self.maximum[rows, columns]
        for ours, theirs in ((self.maximum, block.maximum), (self.query, block.query), (self.key, block.key)):
            ours[rows, columns] = torch.where(better, theirs, ours[rows, columns])

    @property
    def mean_mass(self) -> Float[Tensor, "rows columns"]:
        """The mass of each cell: the mean over its queries. NaN for cells of which no query has been added."""
        return (self.mass / torch.where(self.queries > 0, self.queries, torch.nan)[:, None]).float()


def padded_groups(sizes: Int[Tensor, " groups"]) -> Int[Tensor, "groups largest"]:
    """Returns the indices of neighboring groups of these sizes, one group a row; −1 where a group is smaller.

    Example:
        >>> padded_groups(torch.tensor([2, 1]))
        tensor([[ 0,  1],
                [ 2, -1]])
    """
    place = torch.arange(int(sizes.max()))
    return torch.where(place < sizes[:, None], (sizes.cumsum(0) - sizes)[:, None] + place, -1)


def reduce_block(
    weights: Map, queries: Int[Tensor, " queries"], row_cells: Int[Tensor, " queries"], columns: Axis
) -> CellBlock:
    """Returns the cells of a block of weights, NaN where not allowed, of neighboring queries at all keys of an axis.

    `row_cells` is the row of cells of each query.
    """
    weights = weights.cpu()
    index = padded_groups(columns.sizes)
    cells = torch.where(index < 0, torch.nan, weights[:, index.clamp(min=0)])
    allowed = ~cells.isnan()
    mass = torch.where(allowed, cells, 0).sum(-1, dtype=torch.float64)
    maximum, column = torch.where(allowed, cells, -torch.inf).max(-1)
    key = columns.positions[columns.starts[:-1] + column]
    top = int(row_cells[0])
    sizes = torch.bincount(row_cells - top)
    best, row = grouped_maxima(maximum, sizes)
    none = best.isneginf()
    sums = mass.new_zeros(len(sizes), columns.cells).index_add_(0, row_cells - top, mass)
    counts = allowed.new_zeros(sums.shape, dtype=torch.int64).index_add_(0, row_cells - top, allowed.sum(-1))
    query = torch.where(none, -1, queries[row])
    return CellBlock(top, 0, sums, best, query, torch.where(none, -1, key.gather(0, row)), counts, sizes)


def grouped_maxima(
    values: Float[Tensor, "rows columns"], sizes: Int[Tensor, " groups"]
) -> tuple[Float[Tensor, "groups columns"], Int[Tensor, "groups columns"]]:
    """Returns the maxima of each group of neighboring rows, and the rows that have them."""
    index = padded_groups(sizes)
    padded = values[index.clamp(min=0)].masked_fill((index < 0)[..., None], -torch.inf)
    best, place = padded.max(1)
    return best, index.gather(1, place)


def largest_weights(
    maps: Float[Tensor, "heads queries keys"], rows: Axis, columns: Axis
) -> Float[Tensor, "heads rows columns"]:
    """Returns the largest weight of each cell of whole maps, which have NaN where nothing is allowed."""
    values = maps.cpu()
    for axis, dimension in ((rows, 1), (columns, 2)):
        first, last = axis.starts[:-1], axis.starts[1:] - 1
        # The first positions of all cells, then the second ones, and so on: a cell has few.
        steps = (torch.minimum(first + step, last) for step in range(int(axis.sizes.max())))
        # The larger number, of a number and NaN.
        values = reduce(torch.fmax, (values.index_select(dimension, step) for step in steps))
    return values


def blocks_of_rows(sizes: Int[Tensor, " rows"], most: int) -> Iterator[slice]:
    """Yields the indices of at most `most` neighboring queries, for rows of cells that have `sizes` queries: whole
    rows of cells, or parts of one."""
    starts = np.append(0, sizes.cumsum(0).numpy())
    first = 0
    while first < starts[-1]:
        stop = int(starts[np.searchsorted(starts, first + most, "right") - 1])  # of the last cell that fits whole
        if stop <= first:
            stop = min(first + most, int(starts[np.searchsorted(starts, first, "right")]))
        yield slice(first, stop)
        first = stop


def peak_positions(weights: Float[Tensor, " keys"], most: int = 1000) -> Int[Tensor, " bins"]:
    """Returns the index of the largest weight in each of at most `most` bins of keys, which are about equally wide.

    NaN is a masked key; of a bin in which all are masked it is the first. Raises ValueError if there is no key.

    Example:
        >>> peak_positions(torch.tensor([0.1, 0.5, torch.nan, 0.2, torch.nan, torch.nan]), 3)
        tensor([1, 3, 4])
    """
    keys = len(weights)
    if not keys:
        raise value_error("A row without keys has no peaks.")
    bins = Axis(torch.arange(keys), min(most, keys))
    values = weights.detach().cpu().nan_to_num(nan=-torch.inf)
    return grouped_maxima(values[:, None], bins.sizes)[1][:, 0]
