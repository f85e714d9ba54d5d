"""Downsampling of maps that are too large for a screen, in blocks of rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import adaptive_max_pool1d

from attnviz.analysis.head_maps import Map, Special, head_map, maps_of_heads, shown_positions
from attnviz.inputs import Inputs
from attnviz.layer import Layer
from attnviz.mechanism import BLOCK, Mechanism


@dataclass(frozen=True, eq=False)
class DownsampledMap:
    """A map max-pooled into fewer cells, with the positions of the maxima."""

    weights: Float[Tensor, "height width"]  # the largest weight of each cell; NaN where nothing is allowed
    query: Int[Tensor, "height width"]  # the query position of the largest weight; −1 where nothing is allowed
    key: Int[Tensor, "height width"]  # its key position
    queries: Int[Tensor, " rows"]  # the positions of all queries in the map
    keys: Int[Tensor, " columns"]  # the positions of all keys in the map

    @property
    def rows(self) -> Int[Tensor, " height"]:
        """The position of each row's first query."""
        return _first_positions(self.queries, len(self.weights))

    @property
    def columns(self) -> Int[Tensor, " width"]:
        """The position of each column's first key."""
        return _first_positions(self.keys, self.weights.shape[1])

    def slices(self, top: int, bottom: int, left: int, right: int) -> tuple[slice, slice]:
        """Returns the queries and keys of the cells from `top` to `bottom` and `left` to `right`, inclusive."""
        height, width = self.weights.shape
        spans = (self.queries, top, bottom, height), (self.keys, left, right, width)
        rows, keys = (each[first * len(each) // n : -(-(last + 1) * len(each) // n)] for each, first, last, n in spans)
        return slice(int(rows[0]), int(rows[-1]) + 1), slice(int(keys[0]), int(keys[-1]) + 1)


def downsample(
    compute: Callable[[slice], Map],
    inputs: Inputs,
    height: int,
    width: int,
    *,
    rows: slice = slice(None),
    keys: slice = slice(None),
    special: Special = Special.SHOWN,
) -> DownsampledMap:
    """Returns a map between the queries and keys of `inputs`, max-pooled into at most `height` × `width` cells.

    `compute(rows)` returns the weights of a slice of the queries at all shown keys, as `head_map` does. `rows` and
    `keys` select a part of the map. Cells are those of torch's adaptive pooling: cell i of h has the rows from
    ⌊i n / h⌋ to ⌈(i + 1) n / h⌉ of n. Memory is bounded by one block of rows. Raises ValueError if no query or key is
    selected.

    Example:
        >>> inputs = Inputs(*torch.eye(4).expand(3, 1, 4, 4), tuple("abcd"), tuple("abcd"))
        >>> downsample(lambda rows: head_map(inputs, Mechanism(), 0, rows=rows), inputs, height=2, width=2).key
        tensor([[0, 2],
                [0, 2]])
    """
    q = _selected_positions(inputs.queries, inputs.special_queries, special, rows, "query")
    k = _selected_positions(inputs.keys, inputs.special_keys, special, keys, "key")
    first_column = sum(i < k[0] for i in shown_positions(inputs.keys, inputs.special_keys, special))
    height, width = min(height, len(q)), min(width, len(k))
    cells, device = torch.arange(height), inputs.query.device
    start, end = cells * len(q) // height, -(-(cells + 1) * len(q) // height)
    most = torch.arange(min(BLOCK, int((end - start).max())))
    weights = torch.full((height, width), -torch.inf, dtype=inputs.dtype, device=device)
    query, key = (torch.full((height, width), -1, device=device) for _ in range(2))
    done = 0
    for first in range(q[0] - q[0] % BLOCK, q[-1] + 1, BLOCK):
        block = compute(slice(max(first, q[0]), min(first + BLOCK, q[-1] + 1)))
        block = block[:, first_column : first_column + len(k)]
        if not len(block):
            continue
        maxima = block.nan_to_num(nan=-torch.inf)
        column = torch.arange(width, device=device).expand(len(block), width)
        if width < len(k):
            maxima, column = adaptive_max_pool1d(maxima, width, return_indices=True)
        # The rows of each cell in this block; cells with fewer rows than the largest repeat their last one.
        here = (start < done + len(block)) & (end > done)
        top, bottom = (edge[here].clamp(done, done + len(block)) - done for edge in (start, end))
        window = torch.minimum(top[:, None] + most, bottom[:, None] - 1).to(device)
        best, index = maxima[window].max(1)
        row = window.gather(1, index)
        better, here = best > weights[here], here.to(device)
        weights[here] = torch.where(better, best, weights[here])
        query[here] = torch.where(better, torch.tensor(q, device=device)[done + row], query[here])
        key[here] = torch.where(better, torch.tensor(k, device=device)[column.gather(0, row)], key[here])
        done += len(block)
    return DownsampledMap(torch.where(query < 0, torch.nan, weights), query, key, torch.tensor(q), torch.tensor(k))


def _first_positions(positions: Int[Tensor, " positions"], cells: int) -> Int[Tensor, " cells"]:
    return positions[torch.arange(cells) * len(positions) // cells]


def thumbnails(
    layers: Sequence[Layer], mechanisms: Sequence[Mechanism], size: int, special: Special = Special.SHOWN
) -> Float[Tensor, "heads height width"]:
    """Returns the maps of all heads of all layers, max-pooled into at most `size` × `size` cells."""

    def layer_maps(layer: Layer, mechanism: Mechanism) -> Float[Tensor, "heads height width"]:
        inputs = layer.inputs
        if max(inputs.queries, inputs.keys) <= size:  # each cell is one query and one key
            return maps_of_heads(inputs, mechanism, special=special)
        compute = (partial(head_map, inputs, mechanism, head, special) for head in range(inputs.heads))
        return torch.stack([downsample(one, inputs, size, size, special=special).weights for one in compute])

    return torch.cat([layer_maps(*one) for one in zip(layers, mechanisms, strict=True)])


def _selected_positions(
    count: int, special_positions: Sequence[int], special: Special, part: slice, name: str
) -> list[int]:
    """Returns the shown positions within a slice. Raises ValueError if there are none."""
    if part.step not in (None, 1):
        raise ValueError(f"A part of a map is made of neighbors; the slice has a step of {part.step}. Give it none.")
    inside = range(count)[part]
    positions = [i for i in shown_positions(count, special_positions, special) if i in inside]
    if not positions:
        raise ValueError(f"No {name} is left in this part of the map. Show special tokens, or choose a larger part.")
    return positions
