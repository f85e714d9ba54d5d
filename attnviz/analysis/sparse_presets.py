"""Sparse masks at equal cost: each pattern with the largest size that a budget of pairs pays for, by mass kept.

Windows and sinks follow from the budget alone. Vertical lines, slashes and blocks are chosen for one head of one
example, from its dense attention: the lines from a few of its last queries, as MInference estimates them (Jiang et al.
2024, arXiv 2407.02490), and the blocks of keys by their mass in each block of queries.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attnviz.analysis.downsampling import downsample
from attnviz.analysis.mass_kept import DenseHead, MassKept
from attnviz.base.cached_property import cached_property
from attnviz.inputs import Inputs
from attnviz.masks import Band, Causal, Grid, Mask, Padding, SinksAndWindow, SlidingWindow, VerticalSlash, parse
from attnviz.masks.cost import cost
from attnviz.mechanism import Mechanism

SINKS = 4  # of StreamingLLM
WINDOW_FOR_SINK = 31  # keys of an A-shape's window for each of its sinks: 3,968 and 128 in MInference
LAST_QUERIES = 64  # that MInference estimates its lines from
MOST_LINES = 4096  # of each kind
FEWEST_BLOCKS, MOST_BLOCKS = 16, 512  # along each side of a grid
BLOCK_SAMPLE = 4  # queries of each block that say where its mass lies, of long inputs
LONG = 4096  # tokens: for more, pairs of lines and blocks are counted by closed forms
BLOCKS = (64, 128)  # sides of blocks whose share is counted


@dataclass(frozen=True)
class SparseCost:
    """The pairs and the blocks that a sparse mask leaves of a head's own."""

    pairs: int
    blocks: tuple[int, ...]  # that hold an allowed pair, for each side in BLOCKS

    @classmethod
    def counted(cls, mask: Mask, queries: int, keys: int, head: int = 0) -> "SparseCost":
        """Returns the cost of a mask. Raises ValueError if its pairs are too many to count."""
        each = [cost(mask, queries, keys, head=head, block=block) for block in BLOCKS]
        return cls(each[0].kept, tuple(one.blocks_kept for one in each))


@dataclass(frozen=True, eq=False)
class SparsePreset:
    """A pattern with the largest size that the budget pays for."""

    name: str
    mask: Mask  # that is laid over the head's own
    cost: SparseCost
    kept: MassKept


OnPresets = Callable[[float, list[SparsePreset]], None]


def sparse_presets(dense: DenseHead, budget: float, progress: OnPresets | None = None) -> list[SparsePreset]:
    """Returns the patterns that in some size keep at most a share `budget` of the pairs that the head's own mask
    allows, those that keep most mass first.

    Each leaves the largest number of pairs within the budget. `progress` is called before each with the share that is
    done and the patterns so far; what it raises cancels. Raises ValueError if the own mask's pairs are too many to
    count.

    Example:
        >>> from attnviz.analysis.mass_kept import dense_head
        >>> inputs = Inputs(*torch.eye(8).expand(3, 1, 8, 8), tuple("abcdefgh"), tuple("abcdefgh"))
        >>> for one in sparse_presets(dense_head(inputs, Mechanism(mask=Causal())), 0.5)[:2]:
        ...     print(one.name, one.mask, one.cost.pairs, round(one.kept.mean, 2))
        Sliding window sliding_window(2) 15 0.59
        A-shape sinks_and_window(1, 1) 15 0.59
    """
    patterns = _Patterns(dense)
    own = cost(dense.mechanism.mask, dense.inputs.queries, dense.inputs.keys, head=dense.head).kept
    every = list(patterns.all())
    results: list[SparsePreset] = []
    for i, (name, most, make) in enumerate(every):
        if progress:
            progress(i / len(every), _best_first(results))
        size = _largest(lambda size, make=make: patterns.pairs(make(size)), most, int(budget * own))  # type: ignore[misc]
        if size:
            mask = make(size)
            results.append(SparsePreset(name, mask, patterns.cost(mask), dense.kept(mask)))
    return _best_first(results)


def _best_first(presets: list[SparsePreset]) -> list[SparsePreset]:
    return sorted(presets, key=lambda one: -one.kept.mean)


def _largest(pairs: Callable[[int], int], most: int, budget: int) -> int:
    """Returns the largest size up to `most` that costs no more than the budget; 0 if 1 costs more."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if pairs(middle) <= budget else (low, middle - 1)
    return low


def line_order(inputs: Inputs, mechanism: Mechanism, head: int = 0) -> tuple[list[int], list[int]]:
    """Returns the columns and the slashes of a head, those with most attention first.

    They are estimated from the last LAST_QUERIES queries, as by MInference (arXiv 2407.02490), or from as many that are
    evenly spread where a query may look ahead. The slash of distance 0 is the first, so that a query sees itself.

    Example:
        >>> inputs = Inputs(*torch.eye(3).expand(3, 1, 3, 3), tuple("abc"), tuple("abc"))
        >>> line_order(inputs, Mechanism(mask=Causal()))
        ([0, 1, 2], [0, 1, 2])
    """
    count = min(LAST_QUERIES, inputs.queries)
    is_causal = not bool(mechanism.mask.matrix(1, 2, head)[0, 1])
    spread = (2 * torch.arange(count) + 1) * inputs.queries // (2 * count)
    rows = torch.arange(inputs.queries - count, inputs.queries) if is_causal else spread
    weights = mechanism(inputs, heads=[head], rows=rows.tolist()).weights[0].cpu().double()
    distance = rows[:, None] - torch.arange(inputs.keys)
    least = int(distance.min())
    slashes = torch.zeros(int(distance.max()) - least + 1, dtype=torch.float64)
    slashes.index_add_(0, (distance - least).flatten(), weights.flatten())
    order = [int(i) + least for i in slashes.argsort(descending=True, stable=True) if slashes[i] > 0]
    columns = weights.sum(0).argsort(descending=True, stable=True)
    return columns.tolist(), [0, *(one for one in order if one)]


def block_masses(inputs: Inputs, mechanism: Mechanism, head: int, block: int) -> Float[Tensor, "rows columns"]:
    """Returns the mass of each block of keys in each block of queries; of long inputs, about that much.

    The rows of a block at the end that is not whole are too small, each by the same factor.
    """
    sizes = inputs.queries, inputs.keys
    rows, columns = (-(-size // block) for size in sizes)
    whole = rows * block, columns * block
    if whole != sizes:  # cells of equal size; nothing is allowed in what is added
        inputs = _padded(inputs, whole)
        mechanism = replace(mechanism, mask=mechanism.mask & parse("q < {} & k < {}".format(*sizes)))
    sample = BLOCK_SAMPLE if max(sizes) > LONG else None
    return downsample(inputs, mechanism, head, cells=(rows, columns), sample=sample).mass


def _padded(inputs: Inputs, sizes: tuple[int, int]) -> Inputs:
    queries, keys = sizes[0] - inputs.queries, sizes[1] - inputs.keys
    pad = torch.nn.functional.pad
    return Inputs(
        pad(inputs.query, (0, 0, 0, queries)),
        pad(inputs.key, (0, 0, 0, keys)),
        pad(inputs.value, (0, 0, 0, keys)),
        (*inputs.query_tokens, *[""] * queries),
        (*inputs.key_tokens, *[""] * keys),
    )


class _Patterns:
    """The patterns of a head, and what they cost over its own mask."""

    def __init__(self, dense: DenseHead) -> None:
        self.dense, self.inputs, self.own = dense, dense.inputs, dense.mechanism.mask
        self.queries, self.keys = dense.inputs.queries, dense.inputs.keys
        ahead = self.own.matrix(min(self.queries, 64), min(self.keys, 64), dense.head).triu(1)
        self.is_causal = not bool(ahead.any())

    def all(self) -> Iterator[tuple[str, int, Callable[[int], Mask]]]:
        """Yields the name, the largest size and the masks of each pattern; a larger size allows all that a smaller one
        does."""
        longest = max(self.queries, self.keys)
        if self.is_causal:
            yield "Sliding window", longest, SlidingWindow
            yield "StreamingLLM", longest, partial(SinksAndWindow, SINKS)
            yield "A-shape", longest, lambda size: SinksAndWindow(max(1, size // WINDOW_FOR_SINK), size)
        else:
            yield "Sliding window", longest, Band
            yield "StreamingLLM", longest, lambda size: Padding(SINKS) | Band(size)
        if longest <= LONG or self.is_plainly_causal:
            yield "Vertical-slash", min(MOST_LINES, longest), self.lines
            yield f"Block-sparse top-k, blocks of {self.block}", len(self.blocks_by_mass[0]), self.top_blocks

    @cached_property
    def is_plainly_causal(self) -> bool:
        """Whether the own mask is causal and nothing else."""
        n = self.queries
        return self.is_causal and n == self.keys and cost(self.own & Causal(), n, n).kept == n * (n + 1) // 2

    @cached_property
    def block(self) -> int:
        """The side of a block, a power of 2."""
        longest, block = max(self.queries, self.keys), 1
        while longest > MOST_BLOCKS * block or (block < BLOCKS[0] and longest >= 2 * FEWEST_BLOCKS * block):
            block *= 2
        return block

    @cached_property
    def line_order(self) -> tuple[list[int], list[int]]:
        return line_order(self.inputs, self.dense.mechanism, self.dense.head)

    def lines(self, size: int) -> VerticalSlash:
        """Returns a mask of `size` columns and as many slashes."""
        columns, slashes = (tuple(sorted(lines[:size])) for lines in self.line_order)
        return VerticalSlash(columns, slashes)

    @cached_property
    def blocks_by_mass(self) -> np.ndarray:
        """The blocks of keys of each block of queries, those with most mass first."""
        mass = block_masses(self.inputs, self.dense.mechanism, self.dense.head, self.block)
        return mass.argsort(dim=1, descending=True, stable=True).numpy()

    def top_blocks(self, size: int) -> Grid:
        """Returns the `size` blocks of keys with most mass of each block of queries."""
        chosen = np.zeros(self.blocks_by_mass.shape, bool)
        np.put_along_axis(chosen, self.blocks_by_mass[:, :size], True, 1)
        return Grid.from_array(np.tril(chosen) if self.is_causal else chosen, self.block)

    def pairs(self, mask: Mask) -> int:
        """Returns the pairs that a pattern leaves of the own mask."""
        if max(self.queries, self.keys) > LONG and isinstance(mask, VerticalSlash | Grid):
            return self.causal_pairs(mask)
        return cost(self.own & mask, self.queries, self.keys, head=self.dense.head, block=LONG).kept

    def cost(self, mask: Mask) -> SparseCost:
        """Returns the cost of a pattern over the own mask."""
        if max(self.queries, self.keys) > LONG and isinstance(mask, VerticalSlash | Grid):
            blocks = tuple(self.causal_blocks(mask, block) for block in BLOCKS)
            return SparseCost(self.causal_pairs(mask), blocks)
        return SparseCost.counted(self.own & mask, self.queries, self.keys, self.dense.head)

    def causal_pairs(self, mask: VerticalSlash | Grid) -> int:
        """Returns the pairs of lines or blocks under a causal mask, by closed forms."""
        n = self.queries
        if isinstance(mask, VerticalSlash):
            columns, slashes = np.unique(mask.columns), np.unique(mask.slashes)
            columns, slashes = columns[columns < n], slashes[(slashes >= 0) & (slashes < n)]
            both = np.searchsorted(slashes, n - columns)  # the slashes that cross each column before the last query
            return int((n - columns).sum() + (n - slashes).sum() - both.sum())
        cells, starts = mask.array(), np.arange(mask.rows) * mask.block
        sizes = np.minimum(mask.block, n - starts)
        below = sizes[:, None] * sizes * np.tril(cells, -1)
        return int(below.sum() + (sizes * (sizes + 1) // 2 * cells.diagonal()).sum())

    def causal_blocks(self, mask: VerticalSlash | Grid, block: int) -> int:
        """Returns the blocks that hold a pair of lines or of a grid's blocks under a causal mask."""
        count = -(-self.queries // block)
        holds = np.zeros((count, count), bool)
        if isinstance(mask, Grid):
            # A cell covers whole blocks, or a block whole cells: both sides are powers of 2.
            cells, many, few = np.tril(mask.array()), max(1, mask.block // block), max(1, block // mask.block)
            parts = cells.repeat(many, 0).repeat(many, 1)
            parts = np.pad(parts, [(0, max(0, count * few - len(parts)))] * 2)[: count * few, : count * few]
            return int(np.tril(parts.reshape(count, few, count, few).any((1, 3))).sum())
        for column in mask.columns:
            if column < self.queries:
                holds[column // block :, column // block] = True
        for slash in mask.slashes:
            if 0 <= slash < self.queries:
                self._mark_slash(holds, slash, block)
        return int(holds.sum())

    def _mark_slash(self, holds: Bool[np.ndarray, "rows columns"], slash: int, block: int) -> None:
        above, rest = divmod(slash, block)
        index = np.arange(len(holds))
        first = index[index * block + slash < self.queries]
        holds[first + above, first] = True
        if rest:
            second = index[(index + above + 1) * block < self.queries]
            holds[second + above + 1, second] = True
