"""Sparse masks: few keys for each query, so that a few layers connect all positions."""

import hashlib
from array import array
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from operator import or_

import numpy as np

from attnviz.base.language import N_, _, value_error
from attnviz.masks.mask import Array, LengthDependent, Mask
from attnviz.masks.terms import take


@dataclass(frozen=True)
class Strided(Mask):
    """Each query sees itself and every `stride`-th key before it: k ≤ q and q − k divisible by the stride.

    One half of the strided pattern of the Sparse Transformer (Child et al. 2019), which unites it with the local
    window: `strided(4) | sliding_window(4)`.

    Example:
        >>> Strided(2).matrix(4, 4).long()
        tensor([[1, 0, 0, 0],
                [0, 1, 0, 0],
                [1, 0, 1, 0],
                [0, 1, 0, 1]])
    """

    CONDITION = N_("the key is not after it and the distance is divisible by {stride}")

    stride: int = field(default=4, metadata={"min": 1, "max": 131072})

    def __call__(self, b: Array, h: Array, q: Array, k: Array) -> Array:
        return (k <= q) & ((q - k) % self.stride == 0)


@dataclass(frozen=True)
class Fixed(Mask):
    """Each query sees what came before in its own block, and the last columns of every block before it.

    k ≤ q, and both in the same block or k among the last `columns` of its own: the fixed pattern of the Sparse
    Transformer (Child et al. 2019), with block l and columns c.

    Example:
        >>> Fixed(2).matrix(4, 4).long()
        tensor([[1, 0, 0, 0],
                [1, 1, 0, 0],
                [0, 1, 1, 0],
                [0, 1, 1, 1]])
    """

    CONDITION = N_(
        "the key is not after it and is either in the same block of {block} or among the last of its own block "
        "({columns} of {block})"
    )

    block: int = field(default=4, metadata={"min": 1, "max": 131072})
    columns: int = field(default=1, metadata={"min": 0, "max": 131072})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.columns > self.block:
            raise value_error(
                "Fixed needs no more columns than a block has; it got {columns} columns of "
                "{block}. Use at most {block}.",
                columns=self.columns,
                block=self.block,
            )

    def __call__(self, b: Array, h: Array, q: Array, k: Array) -> Array:
        return (k <= q) & ((q // self.block == k // self.block) | (k % self.block >= self.block - self.columns))


MOST_LISTED = 8  # numbers in a sentence
# Random blocks are drawn for HEADS heads, and head h has those of head h % HEADS;
HEADS = 64
# for fewer heads where there are very many rows of blocks, so that a table has at most MOST_RANDOM numbers.
MOST_RANDOM = 2**17


@dataclass(frozen=True)
class BigBird(LengthDependent):
    """In blocks: the first and the last see all and are seen by all, the others see themselves, their neighbors
    and a few random ones.

    Each head draws its own `random` blocks for each block of queries, none of them twice and none that is seen
    anyway; they follow from the seed alone (Zaheer et al. 2020; transformers' BigBird draws by another generator).

    Example:
        >>> BigBird(1, seed=3).matrix(6, 6).long()
        tensor([[1, 1, 1, 1, 1, 1],
                [1, 1, 1, 1, 0, 1],
                [1, 1, 1, 1, 1, 1],
                [1, 1, 1, 1, 1, 1],
                [1, 1, 0, 1, 1, 1],
                [1, 1, 1, 1, 1, 1]])
    """

    CONDITION = N_(
        "its block of {block} or the key's is the first or the last, or the two are the same or neighbors, or the "
        "key's is drawn at random ({random} for each head and block, seed {seed})"
    )

    block: int = field(default=2, metadata={"min": 1, "max": 131072})
    random: int = field(default=1, metadata={"min": 0, "max": 8, "label": "Random blocks"})
    seed: int = field(default=0, metadata={"min": 0, "max": 9999})

    def allowed(self, queries: int, keys: int, h: Array, q: Array, k: Array) -> Array:
        last_row, last_column = (queries - 1) // self.block, (keys - 1) // self.block
        row, column = q // self.block, k // self.block
        ends = (row == 0) | (row == last_row) | (column == 0) | (column == last_column)
        heads = max(1, min(HEADS, MOST_RANDOM // (last_row + 1)))
        place = h % heads * (last_row + 1) + row.clamp(min=0, max=last_row)
        drawn = _drawn(self.random, self.seed, heads, last_row + 1, last_column + 1)
        near = (row - 1 <= column) & (column <= row + 1)
        return reduce(or_, (column == take(blocks, place) for blocks in drawn), ends | near)

    def table_size(self) -> int:
        return self.random * MOST_RANDOM  # at most, for very long sequences


@lru_cache(maxsize=16)
def _drawn(random: int, seed: int, heads: int, rows: int, columns: int) -> list[array]:
    """Returns for each draw the block of keys of each head (slow axis) and row of blocks (fast axis)."""
    raw = np.frombuffer(hashlib.shake_256(f"BigBird {seed}".encode()).digest(4 * rows * heads * random), dtype="<u4")
    raw = raw.reshape(rows, heads, random).T.astype("i8")
    last, row = columns - 1, np.arange(rows)
    blocks = [0 * row, last + 0 * row, *((row + step).clip(0, last) for step in (-1, 0, 1))]
    for numbers in raw:
        ordered = np.sort(np.stack(np.broadcast_arrays(*blocks, numbers)[:-1]), axis=0)
        ordered = np.where(np.diff(ordered, axis=0, prepend=-1) == 0, columns, ordered)
        free = columns - (ordered < columns).sum(0)
        # The n-th block that is not taken: each taken one that is not after it moves it on by one, and past the
        # last one where none is left.
        block = numbers % free.clip(min=1)
        for each in ordered:
            block = block + (block >= each)
        blocks.append(block)
    return [array("i", block.ravel().tolist()) for block in blocks[5:]]


@dataclass(frozen=True)
class Logarithmic(LengthDependent):
    """Each query sees itself and the keys 1, 2, 4, 8, … positions before it.

    So the keys it sees grow with the logarithm of the length (LogSparse, Li et al. 2019).

    Example:
        >>> Logarithmic().matrix(4, 4).long()
        tensor([[1, 0, 0, 0],
                [1, 1, 0, 0],
                [1, 1, 1, 0],
                [0, 1, 1, 1]])
    """

    CONDITION = N_("the key is at its own position, or 1, 2, 4, 8 or another power of two before it")

    def allowed(self, queries: int, keys: int, h: Array, q: Array, k: Array) -> Array:
        powers = (1 << power for power in range((max(queries, keys) - 1).bit_length()))
        return reduce(or_, (k == q - power for power in powers), k == q)


@dataclass(frozen=True)
class VerticalSlash(Mask):
    """Each query sees some keys that all queries see, and those at some distances before it.

    k is one of `columns`, or q − k one of `slashes`: on a map, vertical lines and diagonals. With a causal mask, as in
    `causal & vertical_slash([0], [0, 1])`, the vertical-slash pattern of MInference (Jiang et al. 2024), which chooses
    the lines for each head and text. A negative slash lies after the query.

    Example:
        >>> VerticalSlash((0,), (0, 2)).matrix(4, 4).long()
        tensor([[1, 0, 0, 0],
                [1, 1, 0, 0],
                [1, 0, 1, 0],
                [1, 1, 0, 1]])
    """

    columns: tuple[int, ...] = field(default=(0, 5), metadata={"min": 0, "max": 1048575, "many": 4096})
    slashes: tuple[int, ...] = field(default=(0, 1, 4), metadata={"min": -1048575, "max": 1048575, "many": 4096})

    def __call__(self, b: Array, h: Array, q: Array, k: Array) -> Array:
        return _is_one_of(k, self.columns) | _is_one_of(q - k, self.slashes)

    def table_size(self) -> int:
        return sum(max(numbers) - min(numbers) + 3 for numbers in (self.columns, self.slashes) if numbers)

    def condition(self) -> str:
        return _(
            "the key is one of {keys}, or is before the query by one of these numbers of positions: {distances}",
            keys=_few(self.columns),
            distances=_few(self.slashes),
        )


def _is_one_of(position: Array, numbers: tuple[int, ...]) -> Array:
    """Returns where a position is one of these numbers."""
    if not numbers:
        return position != position
    first, last = min(numbers), max(numbers)
    return take(_membership(numbers), (position - (first - 1)).clamp(min=0, max=last - first + 2)) == 1


@lru_cache(maxsize=64)
def _membership(numbers: tuple[int, ...]) -> array:
    """Returns 1 for each of these numbers and 0 for those between them, for the one before and for the one after."""
    table = np.zeros(max(numbers) - min(numbers) + 3, "i1")
    table[np.array(numbers) - min(numbers) + 1] = 1
    return array("b", table.tobytes())


def _few(numbers: tuple[int, ...]) -> str:
    listed = ", ".join(map(str, numbers[:MOST_LISTED])) or "none"
    return f"{listed} and {len(numbers) - MOST_LISTED} more" if len(numbers) > MOST_LISTED else listed


MASKS = (Strided, Fixed, BigBird, Logarithmic, VerticalSlash)
