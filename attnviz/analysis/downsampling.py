"""Downsampling of maps that are too large for a screen, in blocks of rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attnviz.analysis.engines import Engine, Local
from attnviz.analysis.head_maps import HeadChoice, Map, Special, head_map, maps_of_heads
from attnviz.analysis.map_cells import Axis, CellSums, blocks_of_rows, largest_weights, reduce_block, shown_axis
from attnviz.analysis.softmax_blocks import compute_block, softmax_head
from attnviz.base.language import value_error
from attnviz.inputs import MapAxes
from attnviz.layer import FixedWeights, Layer
from attnviz.mechanism import BLOCK, Mechanism

MOST_WEIGHTS = 1 << 25  # of a block of whole rows, which a mechanism holds in several stages
LEAST_ROWS = 16  # of a block
WHOLE_CELLS = 1 << 20  # cells; smaller maps are faster as a whole than in blocks
WHOLE_WEIGHTS = 1 << 22  # of several whole maps that are computed at once
OnProgress = Callable[[float, "Downsampled"], None]


@dataclass(frozen=True, eq=False)
class Downsampled:
    """A map in fewer cells. Cells are disjoint and cover all that is shown, each with three numbers.

    Row i and column j stand for the shown queries and keys with row_edges[i] ≤ query < row_edges[i + 1] and
    column_edges[j] ≤ key < column_edges[j + 1]. The mass of a row of cells adds up to what its queries' weights add up
    to, 1 for softmax, and mass · queries / allowed is the mean weight.
    """

    mass: Float[Tensor, "rows columns"]  # the mean over the cell's queries of the sum of their weights on its keys
    maximum: Float[Tensor, "rows columns"]  # the largest weight; NaN where nothing is allowed
    query: Int[Tensor, "rows columns"]  # the position of the query that has it; −1 where nothing is allowed
    key: Int[Tensor, "rows columns"]  # and of the key
    allowed: Int[Tensor, "rows columns"]  # the number of pairs that the mask allows; in a sample an estimate
    lse: Float[Tensor, " queries"]  # of each query, so that weight = exp(score − lse); NaN if there is none
    row_edges: Int[Tensor, " row_edges"]
    column_edges: Int[Tensor, " column_edges"]
    queries: Int[Tensor, " queries"]  # the positions of all queries in the map
    keys: Int[Tensor, " keys"]  # the positions of all keys in the map
    queries_done: int  # the number of queries that the numbers are of: fewer than all in a sample

    @property
    def mean(self) -> Float[Tensor, "rows columns"]:
        """The mean weight of the pairs that are allowed; NaN where there are none."""
        sizes = Axis(self.queries, len(self.mass)).sizes
        return self.mass * sizes[:, None] / torch.where(self.allowed > 0, self.allowed, torch.nan)


def downsample(
    inputs: MapAxes,
    mechanism: Mechanism | FixedWeights,
    head: HeadChoice = 0,
    *,
    cells: tuple[int, int] = (256, 256),
    queries: slice = slice(None),
    keys: slice = slice(None),
    special: Special = Special.SHOWN,
    engine: Engine | None = None,
    sample: int | None = None,
    lse: Float[Tensor, " queries"] | None = None,
    progress: OnProgress | None = None,
) -> Downsampled:
    """Returns the map of one head, or of all heads as one, in at most `cells` rows and columns of cells.

    `queries` and `keys` select a part of the map, and special tokens may be hidden. Of a softmax a tile of scores is
    held at a time, and what the mask allows nowhere is not computed; of other normalizers, and of several heads as one,
    a block of whole rows. `sample` is the largest number of queries of a row of cells, for a first picture. `lse` is
    that of the whole map under the same `special`: with it only the part is computed. `engine` computes the blocks,
    by default the threads of this machine. `progress` is called after each with the share that is done and the map so
    far, in which cells without a query yet are NaN; an exception that it raises ends the computation.

    Raises ValueError if no query or key is selected, or `lse` is not one of each shown query.

    Example:
        >>> from attnviz.inputs import Inputs
        >>> inputs = Inputs(*torch.eye(4).expand(3, 1, 4, 4), tuple("abcd"), tuple("abcd"))
        >>> small = downsample(inputs, Mechanism(), cells=(2, 2))
        >>> small.mass.sum(1), small.allowed[0], small.row_edges
        (tensor([1., 1.]), tensor([4, 4]), tensor([0, 2, 4]))
    """
    rows, columns = _axes(inputs, special, (queries, keys), cells)
    known = None if lse is None else _part(lse, inputs, special, rows)
    softmax = None
    if isinstance(mechanism, Mechanism) and isinstance(head, int):
        softmax = softmax_head(inputs.vectors, mechanism, head, rows, columns, special, known)
    if softmax is None:
        compute = partial(head_map, inputs, mechanism, head, special)
        return downsample_map(
            compute, inputs, cells=cells, queries=queries, keys=keys, special=special, sample=sample, progress=progress
        )
    sums, sizes, rows_lse = CellSums(rows.cells, columns.cells), _sizes(rows, sample), _none(rows)
    index = _sampled(rows, sizes)
    # Few rows of a sample in a block: what their span of queries may attend to differs.
    most = max(LEAST_ROWS, BLOCK * len(index) // len(rows.positions))
    tasks = [index[part] for part in blocks_of_rows(sizes, most)]
    done = 0
    for block in (engine or Local(None if inputs.device.type == "cpu" else 1)).map(compute_block, softmax, tasks):
        sums.add(block.cells)
        rows_lse[block.rows] = block.lse.float()
        done += len(block.rows)
        if progress:
            progress(done / len(index), _downsampled(sums, rows, columns, rows_lse))
    return _downsampled(sums, rows, columns, rows_lse)


def downsample_map(
    compute: Callable[[slice], Map],
    inputs: MapAxes,
    *,
    cells: tuple[int, int] = (256, 256),
    queries: slice = slice(None),
    keys: slice = slice(None),
    special: Special = Special.SHOWN,
    sample: int | None = None,
    progress: OnProgress | None = None,
) -> Downsampled:
    """Returns any map between the queries and keys of `inputs` in fewer cells, such as rollout or a difference.

    `compute(rows)` returns the weights of a slice of the queries at all shown keys, NaN where not allowed, as
    `head_map` does. The other arguments are those of `downsample`. Raises ValueError if no query or key is selected.

    Example:
        >>> from attnviz.inputs import Inputs
        >>> inputs = Inputs(*torch.eye(4).expand(3, 1, 4, 4), tuple("abcd"), tuple("abcd"))
        >>> downsample_map(lambda rows: head_map(inputs, Mechanism(), 0, rows=rows), inputs, cells=(2, 2)).maximum
        tensor([[0.3547, 0.2151],
                [0.2151, 0.3547]])
    """
    rows, columns = _axes(inputs, special, (queries, keys), cells)
    shown = shown_axis(inputs.keys, inputs.special_keys, special, slice(None), 1, "key").positions
    left = int((shown < columns.positions[0]).sum())
    sizes = _sizes(rows, sample)
    index, cell = _sampled(rows, sizes), torch.repeat_interleave(torch.arange(rows.cells), sizes)
    sums, done = CellSums(rows.cells, columns.cells), 0
    for part in blocks_of_rows(sizes, max(1, min(BLOCK, MOST_WEIGHTS // inputs.keys))):
        q = rows.positions[index[part]]
        runs = torch.tensor_split(q, ((q.diff() > 1).nonzero()[:, 0] + 1).tolist())
        block = torch.cat([compute(slice(int(run[0]), int(run[-1]) + 1)).cpu() for run in runs])
        sums.add(reduce_block(block[:, left : left + len(columns.positions)], q, cell[part], columns))
        done += len(q)
        if progress:
            progress(done / len(index), _downsampled(sums, rows, columns, _none(rows)))
    return _downsampled(sums, rows, columns, _none(rows))


def _sizes(rows: Axis, sample: int | None) -> Int[Tensor, " rows"]:
    """Returns how many queries of each row of cells are computed."""
    return rows.sizes if sample is None else rows.sizes.clamp(max=max(1, sample))


def _sampled(rows: Axis, sizes: Int[Tensor, " rows"]) -> Int[Tensor, " queries"]:
    """Returns the indices of `sizes` queries of each row of cells, as evenly spread as can be."""
    place = torch.arange(int(sizes.sum())) - torch.repeat_interleave(sizes.cumsum(0) - sizes, sizes)
    wide, many, start = (torch.repeat_interleave(one, sizes) for one in (rows.sizes, sizes, rows.starts[:-1]))
    return start + (2 * place + 1) * wide // (2 * many)


def _none(rows: Axis) -> Float[Tensor, " queries"]:
    return torch.full((len(rows.positions),), torch.nan)


def _part(lse: Float[Tensor, " queries"], inputs: MapAxes, special: Special, rows: Axis) -> Float[Tensor, " rows"]:
    """Returns the part of the log-sum-exp of all shown queries that belongs to these rows."""
    shown = shown_axis(inputs.queries, inputs.special_queries, special, slice(None), 1, "query").positions
    if len(lse) != len(shown):
        raise value_error(
            "lse must be that of all {count} queries that are shown; it has {got}.",
            count=len(shown),
            got=len(lse),
        )
    return lse[torch.searchsorted(shown, rows.positions)]


def _axes(inputs: MapAxes, special: Special, parts: tuple[slice, slice], cells: tuple[int, int]) -> tuple[Axis, Axis]:
    return (
        shown_axis(inputs.queries, inputs.special_queries, special, parts[0], cells[0], "query"),
        shown_axis(inputs.keys, inputs.special_keys, special, parts[1], cells[1], "key"),
    )


def _downsampled(sums: CellSums, rows: Axis, columns: Axis, lse: Float[Tensor, " queries"]) -> Downsampled:
    return Downsampled(
        sums.mean_mass,
        torch.where(sums.query < 0, torch.nan, sums.maximum),
        sums.query.clone(),
        sums.key.clone(),
        (sums.allowed * (rows.sizes / sums.queries.clamp(min=1))[:, None]).round().long(),
        lse,
        rows.edges,
        columns.edges,
        rows.positions,
        columns.positions,
        int(sums.queries.sum()),
    )


def thumbnails(
    layers: Sequence[Layer],
    size: int,
    special: Special = Special.SHOWN,
    sample: int | None = None,
    number: Callable[[Downsampled], Float[Tensor, "height width"]] | None = None,
) -> Float[Tensor, "heads height width"]:
    """Returns the maps of all heads of all layers in at most `size` × `size` cells, each with one number, by default
    its largest weight.

    `sample` is the largest number of queries of a row of cells; by default all are computed.
    """

    def layer_maps(layer: Layer) -> Float[Tensor, "heads height width"]:
        inputs, mechanism = layer.inputs, layer.mechanism
        if max(inputs.queries, inputs.keys) <= size:  # each cell is one query and one key
            return maps_of_heads(inputs, mechanism, special=special)
        if sample is None and number is None and inputs.queries * inputs.keys <= WHOLE_CELLS:
            count = WHOLE_WEIGHTS // (inputs.queries * inputs.keys)
            axes = _axes(inputs, special, (slice(None), slice(None)), (size, size))
            heads = (slice(first, first + count) for first in range(0, inputs.heads, count))
            return torch.cat([largest_weights(maps_of_heads(inputs, mechanism, one, special), *axes) for one in heads])
        downsample_one = partial(downsample, inputs, mechanism, cells=(size, size), special=special, sample=sample)
        cells = map(downsample_one, range(inputs.heads))
        return torch.stack([number(one) if number else one.maximum for one in cells])

    return torch.cat([*map(layer_maps, layers)])
