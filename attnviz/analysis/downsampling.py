"""Maps of any length in as many cells as a screen has room for, computed by blocks of rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import adaptive_max_pool1d

from attnviz.analysis.head_maps import Map, Special, head_map, shown_positions
from attnviz.inputs import Inputs
from attnviz.layer import Layer
from attnviz.mechanism import BLOCK, Mechanism


@dataclass(frozen=True, eq=False)
class DownsampledMap:
    """A map in fewer cells, each with the largest weight of those it stands for, and where exactly that stands."""

    weights: Float[Tensor, "height width"]  # NaN where nothing is allowed
    query: Int[Tensor, "height width"]  # positions in the inputs; -1 where nothing is allowed
    key: Int[Tensor, "height width"]
    queries: Int[Tensor, " rows"]  # the positions of all that the rows stand for, and the columns
    keys: Int[Tensor, " columns"]

    @property
    def rows(self) -> Int[Tensor, " height"]:
        """The position of each row's first query."""
        return _firsts(self.queries, len(self.weights))

    @property
    def columns(self) -> Int[Tensor, " width"]:
        """The position of each column's first key."""
        return _firsts(self.keys, self.weights.shape[1])

    def part(self, top: int, bottom: int, left: int, right: int) -> tuple[slice, slice]:
        """The positions that these rows and columns stand for, the last ones included."""
        height, width = self.weights.shape
        spans = (self.queries, top, bottom, height), (self.keys, left, right, width)
        rows, keys = (each[first * len(each) // n : -(-(last + 1) * len(each) // n)] for each, first, last, n in spans)
        return slice(int(rows[0]), int(rows[-1]) + 1), slice(int(keys[0]), int(keys[-1]) + 1)


def downsample_head(
    inputs: Inputs,
    mechanism: Mechanism,
    head: int,
    height: int,
    width: int,
    *,
    rows: slice = slice(None),
    keys: slice = slice(None),
    special: Special = Special.SHOWN,
) -> DownsampledMap:
    """Returns the map of one head in at most `height` × `width` cells, or a part of it, as `downsample` does."""
    of = partial(head_map, inputs, mechanism, head, special)
    return downsample(of, inputs, height, width, rows=rows, keys=keys, special=special)


def downsample(
    of: Callable[[slice], Map],
    inputs: Inputs,
    height: int,
    width: int,
    *,
    rows: slice = slice(None),
    keys: slice = slice(None),
    special: Special = Special.SHOWN,
) -> DownsampledMap:
    """A map between the queries and the keys of these inputs in at most `height` × `width` cells, or a part of it.

    `of` gives the weights of the queries in a slice at all keys, NaN where not allowed, without the special tokens
    that are hidden: as `head_map` does, or several heads together. Cells share rows and keys out as torch's adaptive
    pooling does: of n rows in h cells, cell i has those from ⌊i n / h⌋ to ⌈(i + 1) n / h⌉. No more than a block of rows
    is held. Raises ValueError when no row or key is left.
    """
    q = _left(inputs.queries, inputs.special_queries, special, rows, "query")
    k = _left(inputs.keys, inputs.special_keys, special, keys, "key")
    left_of_keys = sum(i < k[0] for i in shown_positions(inputs.keys, inputs.special_keys, special))
    height, width = min(height, len(q)), min(width, len(k))
    cells, device = torch.arange(height), inputs.query.device
    start, end = cells * len(q) // height, -(-(cells + 1) * len(q) // height)
    most = torch.arange(min(BLOCK, int((end - start).max())))
    weights = torch.full((height, width), -torch.inf, dtype=inputs.query.dtype, device=device)
    query, key = (torch.full((height, width), -1, device=device) for _ in range(2))
    done = 0
    for first in range(q[0] - q[0] % BLOCK, q[-1] + 1, BLOCK):
        part = slice(max(first, q[0]), min(first + BLOCK, q[-1] + 1))
        block = of(part)[:, left_of_keys : left_of_keys + len(k)]
        if not len(block):
            continue
        along = block.nan_to_num(nan=-torch.inf)
        column = torch.arange(width, device=device).expand(len(block), width)
        if width < len(k):
            along, column = adaptive_max_pool1d(along, width, return_indices=True)
        # The rows of each cell that are in this block; a cell of fewer than the most has its last one again.
        here = (start < done + len(block)) & (end > done)
        top, bottom = (edge[here].clamp(done, done + len(block)) - done for edge in (start, end))
        window = torch.minimum(top[:, None] + most, bottom[:, None] - 1).to(device)
        best, which = along[window].max(1)
        row = window.gather(1, which)
        better, here = best > weights[here], here.to(device)
        weights[here] = torch.where(better, best, weights[here])
        query[here] = torch.where(better, torch.tensor(q, device=device)[done + row], query[here])
        key[here] = torch.where(better, torch.tensor(k, device=device)[column.gather(0, row)], key[here])
        done += len(block)
    return DownsampledMap(torch.where(query < 0, torch.nan, weights), query, key, torch.tensor(q), torch.tensor(k))


def _firsts(positions: Int[Tensor, " positions"], cells: int) -> Int[Tensor, " cells"]:
    return positions[torch.arange(cells) * len(positions) // cells]


def thumbnails(
    layers: Sequence[Layer], mechanisms: Sequence[Mechanism], size: int, special: Special = Special.SHOWN
) -> Float[Tensor, "heads height width"]:
    """Every head of every layer as a small map of at most `size` cells a side, NaN where nothing is allowed.

    A cell that stands for several has their maximum, so that no strong weight is lost.
    """
    maps = (
        downsample_head(layer.inputs, mechanism, head, size, size, special=special).weights
        for layer, mechanism in zip(layers, mechanisms, strict=True)
        for head in range(layer.inputs.heads)
    )
    return torch.stack(list(maps))


def _left(count: int, special: Sequence[int], how: Special, part: slice, name: str) -> list[int]:
    """The positions of a part that are looked at."""
    if part.step not in (None, 1):
        raise ValueError(f"A part of a map is made of neighbors; the slice has a step of {part.step}. Give it none.")
    inside = range(count)[part]
    left = [i for i in shown_positions(count, special, how) if i in inside]
    if not left:
        raise ValueError(f"No {name} is left in this part of the map. Show special tokens, or choose a larger part.")
    return left
