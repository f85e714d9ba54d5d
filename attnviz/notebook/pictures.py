"""The charts of a viewer: a mosaic of all heads, and the map of one head, or two maps and their difference."""

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any, TypeAlias

import numpy as np
import torch
from jaxtyping import Float

from attnviz.analysis.difference import ADDED, REMOVED, difference, outcomes
from attnviz.analysis.downsampling import downsample_map
from attnviz.analysis.head_maps import Map
from attnviz.chart import header
from attnviz.figures import downsampled_map, heatmap
from attnviz.figures.chart_spec import Chart, HeatmapSpec
from attnviz.figures.difference import difference_heatmap
from attnviz.figures.layer_mosaic import layer_mosaic, tile_place
from attnviz.formatting import dimensions
from attnviz.notebook.layer_maps import LayerMaps

HEIGHT = 420
MOST_CELLS = 1 << 20  # of a map that is sent whole: 4 MB to a browser
CELLS = 256  # of a downsampled map, along each side
THUMBNAIL_CELLS = 768  # a side of a mosaic of several layers has about so many, shared by the heads along it
THUMBNAIL = 128  # a side of a head in the mosaic of one layer
HINT = "Point at a cell to read it, click to pin its query."
LONG_HINT = "Each cell: its largest weight."
CHANGE_HINT = "Largest changes."
Span: TypeAlias = tuple[int, int, int, int]  # the first query, the one after the last, and the same of the keys
Header: TypeAlias = dict[str, Any]


class Pictures:
    """The charts of all heads of some layers; with layers to compare, each chart of a head has three maps.

    Raises ValueError if the two sources do not have the same layers, heads and lengths.
    """

    def __init__(
        self,
        layers: Sequence[LayerMaps],
        compared: Sequence[LayerMaps] = (),
        names: tuple[str, str] = ("A", "B"),
        key: str = "attnviz",
    ) -> None:
        self.layers, self.compared, self.names, self.key = tuple(layers), tuple(compared), names, key
        sizes, others = ([one.group[2:] for one in each] for each in (self.layers, self.compared))
        if self.compared and sizes != others:
            raise ValueError(
                "Two sources can be compared if their layers have equal numbers of heads, queries and keys. "
                f"{names[0]} has {_size(sizes)}, {names[1]} has {_size(others)}."
            )
        if self.compared and any(map(self.is_long, range(len(self.layers)))):
            raise ValueError(f"Maps of more than {MOST_CELLS:,} cells cannot be compared. Choose fewer tokens.")

    @cached_property
    def groups(self) -> list[list[int]]:
        """The indices of the layers of each mosaic."""
        groups: dict[tuple[object, ...], list[int]] = {}
        for index, layer in enumerate(self.layers):
            groups.setdefault(layer.group, []).append(index)
        return list(groups.values())

    @cached_property
    def overview(self) -> list[dict[str, Any]]:
        """The name, the number of heads, the lengths and the group of each layer."""
        groups = {index: number for number, group in enumerate(self.groups) for index in group}
        return [
            {
                "name": str(layer.id),
                "heads": layer.inputs.heads,
                "queries": layer.inputs.queries,
                "keys": layer.inputs.keys,
                "group": groups[index],
            }
            for index, layer in enumerate(self.layers)
        ]

    def is_long(self, index: int) -> bool:
        """Returns whether the maps of a layer have too many cells to be sent whole."""
        inputs = self.layers[index].inputs
        return inputs.queries * inputs.keys > MOST_CELLS

    # Mosaics ----------------------------------------------------------------------------------------------------------

    @cached_property
    def thumbnails(self) -> list[Float[np.ndarray, "layers heads height width"]]:
        """The small maps of each group; of two sources, how much a weight differs at most in each cell."""
        return [self._thumbnails(group) for group in self.groups]

    def _thumbnails(self, group: list[int]) -> Float[np.ndarray, "layers heads height width"]:
        heads = self.layers[group[0]].inputs.heads
        size = THUMBNAIL if len(group) == 1 else max(8, THUMBNAIL_CELLS // max(heads, len(group)))
        maps = [[self._thumbnail(index, head, size) for head in range(heads)] for index in group]
        return torch.stack([torch.stack(heads) for heads in maps]).numpy()

    def _thumbnail(self, index: int, head: int, size: int) -> Map:
        inputs = self.layers[index].inputs
        compute: Callable[[slice], Map] = partial(self.layers[index].compute, head)
        if self.compared:
            change = self._change(index, head).abs()
            compute = change.__getitem__
        if max(inputs.queries, inputs.keys) <= size:
            return compute(slice(None))
        return downsample_map(compute, inputs, cells=(size, size)).maximum

    @cached_property
    def _scales(self) -> list[float]:
        """The upper end of the color scale of each group: its largest weight, or 1 if there is none."""
        if not self.compared:
            return [_largest(small) for small in self.thumbnails]
        both = self.layers, self.compared
        return [
            max(
                _largest(layers[index].compute(head, slice(None)).numpy())
                for layers in both
                for index in group
                for head in range(layers[index].inputs.heads)
            )
            for group in self.groups
        ]

    def mosaic(self, group: int) -> Header:
        """Returns the mosaic of a group, with the layer and the head of each of its tiles."""
        indices, maps = self.groups[group], self.thumbnails[group]
        picture = layer_mosaic(maps, [self.layers[i].id for i in indices], largest=_largest(maps))
        count, tiles = len(indices), len(picture.spec.names)
        numbers = f"changes from {self.names[0]} to {self.names[1]}" if self.compared else "attention weights"
        places = (tile_place(tile, count) for tile in range(tiles))
        sent = header(
            picture,
            f"{self.key} heads",
            label="Heads",
            name="attention heads",
            description=f"{tiles} small maps of {numbers}, one for each head. Enter opens one.",
            height=HEIGHT,
            grows=False,
            hint=CHANGE_HINT if self.compared else "Click a head to open it.",
            clicks=True,
        )
        return sent | {"places": [(indices[layer], head) for layer, head in places]}

    # Maps of a head ---------------------------------------------------------------------------------------------------

    def maps(self, index: int, head: int, span: Span | None = None, cells: int = CELLS) -> list[Header]:
        """Returns the chart of a head, or of two maps and their difference.

        A long map has at most `cells` × `cells` cells; `span` is the part of it that is in view.
        """
        if self.compared:
            return self._comparison(index, head)
        layer, title = self.layers[index], f"{self.layers[index].id} head {head}"
        if not self.is_long(index):
            whole = layer.compute(head, slice(None)).numpy()
            return [self._map(self._heatmap(whole, index), title, title, hint=HINT)]
        view = span or (0, layer.inputs.queries, 0, layer.inputs.keys)
        rows, keys = slice(*view[:2]), slice(*view[2:])
        picture = downsampled_map(
            downsample_map(partial(layer.compute, head), layer.inputs, cells=(cells, cells), queries=rows, keys=keys),
            layer.inputs.query_tokens,
            layer.inputs.key_tokens,
            zoom_key=f"{self.key} {view}",
            viewport=span is not None,
        )
        return [self._map(picture, title, title, hint=LONG_HINT, views=True) | {"span": view}]

    def _comparison(self, index: int, head: int) -> list[Header]:
        pair = [layers[index].compute(head, slice(None)) for layers in (self.layers, self.compared)]
        kinds, inputs = outcomes(*pair).numpy(), self.layers[index].inputs
        keys = f"{self.key} a", f"{self.key} b"
        change = difference_heatmap(
            difference(*pair).numpy(),
            kinds == REMOVED,
            kinds == ADDED,
            inputs.query_tokens,
            inputs.key_tokens,
            charts=keys,
            zoom_key=self.key,
            link=self.key,
        )
        title = f"{self.layers[index].id} head {head}"
        maps = [
            self._map(self._heatmap(weights.numpy(), index, source), name, f"{title}, {name}", key)
            for weights, source, name, key in zip(pair, (self.layers, self.compared), self.names, keys, strict=True)
        ]
        name = f"{self.names[1]} − {self.names[0]}"
        return [*maps, self._map(change, name, f"{title}, {name}", f"{self.key} change")]

    def _change(self, index: int, head: int) -> Map:
        return difference(*(layers[index].compute(head, slice(None)) for layers in (self.layers, self.compared)))

    def _heatmap(
        self, weights: Float[np.ndarray, "queries keys"], index: int, source: Sequence[LayerMaps] = ()
    ) -> Chart[HeatmapSpec]:
        inputs = (source or self.layers)[index].inputs
        return heatmap(
            weights,
            inputs.query_tokens,
            inputs.key_tokens,
            largest=self._scales[self.overview[index]["group"]],
            zoom_key=self.key,
            link=self.key if self.compared else "",
            fan=not self.compared,
        )

    def _map(
        self,
        picture: Chart[HeatmapSpec],
        title: str,
        name: str,
        key: str = "",
        *,
        hint: str = "Point at a cell to read it.",
        views: bool = False,
    ) -> Header:
        rows, columns = len(picture.spec.query_tokens), len(picture.spec.key_tokens)
        return header(
            picture,
            key or f"{self.key} map",
            label="Attention weights",
            name=f"attention {name}",
            description=f"{name}: {rows} rows by {columns} columns. The arrow keys move from cell to cell.",
            height=HEIGHT,
            grows=False,
            hint=hint,
            title=title if self.compared else "",
            clicks=True,
            views=views,
        )


def _largest(maps: Float[np.ndarray, "*axes height width"]) -> float:
    return (float(np.nanmax(np.abs(maps))) if not np.isnan(maps).all() else 0.0) or 1.0


def _size(groups: Sequence[tuple[object, ...]]) -> str:
    sizes = sorted({dimensions(map(int, map(str, one))) for one in groups})
    return f"{len(groups)} layers of {' and '.join(sizes)}"
