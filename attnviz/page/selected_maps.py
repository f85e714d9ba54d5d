"""Head maps as they are drawn: whole, or for long texts the viewport, downsampled. Maps are cached by what they
depend on."""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
import torch
from jaxtyping import Float

from attnviz.analysis.aggregation import rollout
from attnviz.analysis.downsampling import Downsampled, downsample_map, thumbnails
from attnviz.analysis.head_maps import Aggregate, HeadChoice, Map, Rollout, Special, head_map
from attnviz.analysis.work import check_heads, check_map, check_work, heads_work, is_affordable
from attnviz.base.language import N_, _, option_name
from attnviz.figures import Chart, downsampled_map, heatmap
from attnviz.figures.chart_spec import HeatmapSpec
from attnviz.figures.downsampled_map import CELL_COLORS, CellColors, Quantity, cell_names
from attnviz.figures.sentences import CELL_SENTENCES, GIVES_AT_MOST, GIVES_ON_AVERAGE, CellSentences
from attnviz.inputs import MapAxes
from attnviz.layer import Layer
from attnviz.page.long_maps import downsample_head
from attnviz.page.map_files import WEIGHTS_FILES, figures_page
from attnviz.page.page_view import Panel
from attnviz.page.result_cache import result_cache
from attnviz.page.selection import Selection, similar_layers
from attnviz.page.viewport import WHOLE, Viewport

CELLS = 256  # of a downsampled map, along each side
THUMBNAIL_SAMPLE = 2  # queries of each row of cells, where all would take too long
THUMBNAIL_CELLS, LEAST_THUMBNAIL = 768, 8  # cells along a side of the mosaic, about, and at least of a head
ROLLED_OUT = N_("{weight} of what is at {query} after {layer} comes from {key}.")
SENTENCES: dict[HeadChoice, CellSentences] = {
    Aggregate.MEAN: CellSentences(GIVES_ON_AVERAGE),
    Aggregate.MAXIMUM: CellSentences(GIVES_AT_MOST),
}


@dataclass(frozen=True, eq=False)
class HeadMap:
    """The weights of one head, or of several as one, as they are drawn."""

    inputs: MapAxes
    title: str
    queries: Sequence[int]  # the positions in view
    keys: Sequence[int]
    weights: Float[np.ndarray, "rows columns"]  # NaN where not allowed; of a downsampled map what its colors show
    compute: Callable[[slice], Map]  # the exact weights of the queries in a slice at all keys that are shown
    sentences: CellSentences = CELL_SENTENCES
    cache_key: tuple[object, ...] = ()  # what tells it from other maps
    downsampled: Downsampled | None = None  # of a long text: which positions each cell stands for
    viewport: Viewport = WHOLE
    cell_colors: CellColors = CELL_COLORS  # of a downsampled map

    @property
    def query_tokens(self) -> list[str]:
        """The tokens of the queries in view."""
        return [self.inputs.query_tokens[i] for i in self.queries]

    @property
    def key_tokens(self) -> list[str]:
        return [self.inputs.key_tokens[i] for i in self.keys]

    @property
    def labels(self) -> tuple[list[str], list[str]]:
        """The labels of rows and columns: tokens, or positions if a row or column has several."""
        if self.downsampled is None:
            return self.query_tokens, self.key_tokens
        return cell_names(self.downsampled, self.inputs.query_tokens, self.inputs.key_tokens)

    def position_at(self, row: int, column: int) -> tuple[int, int] | None:
        """Returns the positions of the query and key of a cell's largest weight; None if all are masked."""
        if self.downsampled is None:
            return self.queries[row], self.keys[column]
        query = int(self.downsampled.query[row, column])
        return None if query < 0 else (query, int(self.downsampled.key[row, column]))

    def exact_rows(self, queries: Sequence[int]) -> Map:
        """Returns the weights of the queries at these positions at all shown keys, not downsampled."""
        return result_cache().once(
            lambda: torch.cat([self.compute(slice(i, i + 1)) for i in queries]),
            *("rows", list(queries), *self.cache_key),
        )

    def chart(self, *, largest: float, link: str = "", fan: bool = False) -> Chart[HeatmapSpec]:
        """Returns the figure with colors up to `largest`; charts with one `link` highlight the same cell."""
        if self.downsampled is None:
            picture = heatmap(
                self.weights,
                *self.labels,
                largest=largest,
                sentences=self.sentences,
                zoom_key=zoom_key(self.inputs),
                link=link,
                fan=fan,
            )
        else:
            picture = downsampled_map(
                self.downsampled,
                self.inputs.query_tokens,
                self.inputs.key_tokens,
                colors=self.cell_colors,
                largest=largest,
                allowed=self.sentences.allowed,
                zoom_key=f"{zoom_key(self.inputs)} {self.viewport}",
                link=link,
                viewport=self.viewport != WHOLE,
            )
        return picture.with_about(
            name=_("attention {title}", title=self.title), description=f"{self.title}: {picture.about.description}"
        )

    def positions_in(self, cells: tuple[int, int, int, int] | None) -> tuple[slice, slice]:
        """Returns the positions of the queries and keys of a downsampled map in some of its cells: from the first to
        the last row, and from the first to the last column. None gives all positions."""
        assert self.downsampled is not None
        queries, keys = self.inputs.queries, self.inputs.keys
        if cells is None:
            return slice(0, queries), slice(0, keys)
        top, bottom, left, right = cells
        small = self.downsampled
        return (
            positions(small.row_edges.tolist(), top, bottom, queries),
            positions(small.column_edges.tolist(), left, right, keys),
        )


def positions(edges: Sequence[int], first: int, last: int, count: int) -> slice:
    """Returns the positions of the cells from `first` to `last`, which may lie around those that have these edges."""
    cells = len(edges) - 1
    size = (edges[-1] - edges[0]) / cells
    first = min(max(first, -cells), cells - 1)
    last = min(max(last, first, 0), 2 * cells - 1)
    start = edges[first] if first >= 0 else edges[0] + round(first * size)
    stop = edges[last + 1] if last < cells else edges[-1] + round((last + 1 - cells) * size)
    return slice(max(0, start), min(count, stop))


def selected_map(selection: Selection) -> HeadMap:
    """Returns the map of the selected head. Raises ValueError if it takes too much work, or nothing is left to show."""
    inputs, mechanism, head = selection.inputs, selection.layer.mechanism, selection.head
    if isinstance(head, Rollout):
        return _rollout_map(selection)
    if selection.is_long and isinstance(head, int):
        place = selection.source, selection.index, head
        result_cache().once(lambda: check_map(inputs, mechanism, head), "work of a map", mechanism, *place)
    else:
        check_heads([selection.layer])
    compute = partial(head_map, inputs, mechanism, head, selection.special)
    sentences = SENTENCES.get(head, CELL_SENTENCES)
    work = heads_work([selection.layer]) // (inputs.heads if isinstance(head, int) else 1)
    key = selection.index, mechanism, head
    downsample_rows = partial(downsample_head, inputs, mechanism, head)
    return compute_map(selection, compute, selection.title, sentences, key, work, downsample_rows)


def _rollout_map(selection: Selection) -> HeadMap:
    """Returns the rollout of the layers up to the selected one. Raises ValueError as `compute_map` and `rollout`."""
    stack = [i for i in similar_layers(selection.layers, selection.index) if i <= selection.index]
    layers = [selection.layers[i] for i in stack]
    work = heads_work(layers)
    check_work(work, _("To roll out all these layers"), _("Shorten the text, or choose an earlier layer."))
    sentences = CellSentences(_(ROLLED_OUT).replace("{layer}", option_name(selection.layer.name)))
    key = "rollout", stack, [layer.mechanism for layer in layers]
    return compute_map(selection, _rollout_rows(selection, layers), selection.title, sentences, key, work)


def _rollout_rows(selection: Selection, layers: Sequence[Layer]) -> Callable[[slice], Map]:
    """Returns a function that computes the rollout of the queries in a slice, at all shown keys."""
    whole = lru_cache(1)(lambda: rollout(layers))  # every block of rows needs all that is below
    inputs, queries, keys = selection.inputs, {*selection.queries}, selection.keys

    def rolled(rows: slice) -> Map:
        positions = [i for i in range(inputs.queries)[rows] if i in queries]
        result = (rollout(layers, positions) if len(positions) == 1 else whole()[positions])[:, keys]
        return result / result.sum(-1, keepdim=True) if selection.special == Special.RESCALED else result

    return rolled


def compute_map(
    selection: Selection,
    compute: Callable[[slice], Map],
    title: str,
    sentences: CellSentences,
    key: tuple[object, ...],
    work: int,
    downsample_rows: Callable[..., Downsampled] | None = None,
) -> HeadMap:
    """Returns a map whose weights `compute` returns for slices of the queries of the selected layer, in `work` steps.

    `downsample_rows` downsamples a long one faster than by `compute`, with the arguments of `downsample_map`. `key`
    distinguishes it from other maps of the same source. Raises ValueError if no query or key is left to show.
    """
    inputs, special = selection.inputs, selection.special
    key = (selection.source, special, *key)
    if selection.viewport is None or not selection.is_long:
        weights = result_cache().once(lambda: compute(slice(None)).cpu().numpy(), "map", *key, work=work)
        return HeadMap(inputs, title, selection.queries, selection.keys, weights, compute, sentences, key)
    part = selection.viewport.within(inputs)
    rows, keys = slice(*part.queries), slice(*part.keys)
    cells = selection.cells or CELLS
    name = "downsampled map", cells
    make = partial(
        downsample_rows or partial(downsample_map, compute, inputs),
        cells=(cells, cells),
        queries=rows,
        keys=keys,
        special=special,
    )
    work = work * len(range(inputs.queries)[rows]) // inputs.queries
    whole = result_cache().finished(*name, WHOLE, *key) if downsample_rows and part != WHOLE else None
    if whole:  # the log-sum-exp of its rows is known, so the part needs no other keys
        make = partial(make, lse=whole.lse)
        work = work * len(range(inputs.keys)[keys]) // inputs.keys
    downsampled = result_cache().refined(make, *name, part, *key, work=work)
    return downsampled_head_map(inputs, title, downsampled, compute, part, selection.cell_colors, sentences, key)


def downsampled_head_map(
    inputs: MapAxes,
    title: str,
    downsampled: Downsampled,
    compute: Callable[[slice], Map],
    viewport: Viewport = WHOLE,
    cell_colors: CellColors = CELL_COLORS,
    sentences: CellSentences = CELL_SENTENCES,
    cache_key: tuple[object, ...] = (),
) -> HeadMap:
    """Returns the map of a long text in fewer cells, with the arguments of `HeadMap`."""
    queries, keys = downsampled.queries.tolist(), downsampled.keys.tolist()
    weights = cell_colors.quantity.of_cells(downsampled)
    return HeadMap(
        inputs, title, queries, keys, weights, compute, sentences, cache_key, downsampled, viewport, cell_colors
    )


def row_weights(selection: Selection, head_map: HeadMap, row: int) -> Float[torch.Tensor, " keys"]:
    """Returns the exact weights of one of the shown queries at all keys that are shown, NaN where not allowed."""
    if head_map.downsampled is None:
        return torch.from_numpy(head_map.weights[row])
    return head_map.exact_rows([selection.queries[row]])[0]


def selected_thumbnails(selection: Selection) -> Float[np.ndarray, "heads height width"]:
    """Returns thumbnails of all heads of the mosaic, layer by layer. Raises ValueError if that takes too much work."""
    indices = selection.mosaic_layers
    layers = [selection.layers[i] for i in indices]
    size = thumbnail_size(selection.inputs.heads, len(layers))
    work, sample = heads_work(layers), thumbnail_sample(selection)
    if sample is None:
        check_heads(layers)
    else:
        work = work * size * sample // selection.inputs.queries
        check_work(work, _("To sample all these heads"), _("Use fewer tokens or heads."))
    mechanisms = [layer.mechanism for layer in layers]
    quantity = selection.cell_colors.quantity if selection.is_long else Quantity.MAXIMUM
    return result_cache().once(
        lambda: thumbnails(
            layers,
            size,
            selection.special,
            sample,
            None if quantity == Quantity.MAXIMUM else lambda small: torch.from_numpy(quantity.of_cells(small)),
        ).numpy(),
        *("thumbnails", selection.source, selection.special, indices, mechanisms, size, quantity),
        work=work,
    )


def thumbnail_size(heads: int, layers: int) -> int:
    """Returns the number of cells along each side of the thumbnails in a mosaic of these layers."""
    return max(LEAST_THUMBNAIL, THUMBNAIL_CELLS // (max(heads, layers) if layers > 1 else 6))


def thumbnail_sample(selection: Selection) -> int | None:
    """Returns of how many queries each row of a thumbnail is, if not of all: a long layer would take too long."""
    whole = is_affordable(heads_work([selection.layer]))
    return THUMBNAIL_SAMPLE if selection.is_long and not selection.all_layers and not whole else None


def zoom_key(inputs: MapAxes) -> str:
    """Returns a key of these tokens; charts with the same key keep their zoom."""
    return str(zlib.crc32("\0".join((*inputs.query_tokens, "", *inputs.key_tokens)).encode(errors="replace")))


def map_panel(head_map: HeadMap, title: str, row: int | None) -> Panel:
    """Returns a head map as a panel. A row of a map in fewer cells is not marked."""
    return Panel(title, head_map.weights, *head_map.labels, None if head_map.downsampled else row)


def map_files(
    head_map: HeadMap, draw: Callable[[], Chart[HeatmapSpec]], note: str = ""
) -> list[tuple[str, str, Callable[[], str | bytes]]]:
    """Returns the files of a head map, each with its label, its name and what makes it: the weights, and its picture,
    which `draw` returns, with a note on the weights."""
    columns, title = (head_map.weights, *head_map.labels), head_map.title

    def page() -> str:
        return figures_page([(_("Attention: {title}", title=title), draw().figure)], note)

    makes: list[tuple[str, str, Callable[[], str | bytes]]] = [
        (_(kind.label), ending, partial(kind.write, *columns)) for ending, kind in WEIGHTS_FILES.items()
    ]
    return [
        (label, _("attention {title}{ending}", title=title, ending=ending), make)
        for label, ending, make in (*makes, (_("Figure as HTML"), ".html", page))
    ]
