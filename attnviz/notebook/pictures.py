"""The charts of a viewer: a mosaic of all heads, and the map of one head, or two maps and their difference."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from jaxtyping import Float

from attnviz.analysis.difference import difference
from attnviz.analysis.downsampling import downsample_map
from attnviz.analysis.head_maps import Map, head_map
from attnviz.base.cached_property import cached_property
from attnviz.base.formatting import dimensions
from attnviz.base.language import _
from attnviz.chart import header
from attnviz.figures.chart_spec import Chart, HeatmapSpec
from attnviz.figures.layer_mosaic import LayerTiles, layer_mosaic
from attnviz.inputs import MapAxes
from attnviz.layer import Layer, head_name
from attnviz.page.color_range import largest_weight
from attnviz.page.head_difference import head_difference
from attnviz.page.selected_maps import CELLS, HeadMap, downsampled_head_map, thumbnail_size
from attnviz.page.selection import mosaic_groups
from attnviz.page.viewport import MOST_CELLS, WHOLE, Viewport, is_long

HEIGHT = 420
Span: TypeAlias = tuple[int, int, int, int]  # the first query, the one after the last, and the same of the keys
Header: TypeAlias = dict[str, Any]


class Pictures:
    """The charts of all heads of some layers; with layers to compare, each chart of a head has three maps.

    Raises ValueError if the two sources do not have the same layers, heads and lengths.
    """

    def __init__(
        self,
        layers: Sequence[Layer],
        compared: Sequence[Layer] = (),
        names: tuple[str, str] = ("A", "B"),
        key: str = "attnviz",
    ) -> None:
        self.layers, self.compared, self.names, self.key = tuple(layers), tuple(compared), names, key
        sizes, others = ([_size(one.inputs) for one in each] for each in (self.layers, self.compared))
        if self.compared and sizes != others:
            raise ValueError(
                "Two sources can be compared if their layers have equal numbers of heads, queries and keys. "
                f"{names[0]} has {_sizes(sizes)}, {names[1]} has {_sizes(others)}."
            )
        if self.compared and any(map(self.is_long, range(len(self.layers)))):
            raise ValueError(f"Maps of more than {MOST_CELLS:,} cells cannot be compared. Choose fewer tokens.")

    def grown(self, layers: Sequence[Layer]) -> "Pictures":
        """Returns the charts of the same layers with more queries, with the color scales that are known."""
        grown = Pictures(layers, key=self.key)
        if "_scales" in vars(self):
            vars(grown)["_scales"] = self._scales
        return grown

    @cached_property
    def groups(self) -> list[list[int]]:
        """The indices of the layers of each mosaic."""
        return mosaic_groups(self.layers)

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
        return is_long(self.layers[index].inputs)

    # Mosaics ----------------------------------------------------------------------------------------------------------

    @cached_property
    def thumbnails(self) -> list[Float[np.ndarray, "layers heads height width"]]:
        """The small maps of each group; of two sources, how much a weight differs at most in each cell."""
        return [self._thumbnails(group) for group in self.groups]

    def _thumbnails(self, group: list[int]) -> Float[np.ndarray, "layers heads height width"]:
        heads = self.layers[group[0]].inputs.heads
        size = thumbnail_size(heads, len(group))
        maps = [[self._thumbnail(index, head, size) for head in range(heads)] for index in group]
        return torch.stack([torch.stack(heads) for heads in maps]).numpy()

    def _thumbnail(self, index: int, head: int, size: int) -> Map:
        inputs = self.layers[index].inputs
        compute = _computation(self.layers[index], head)
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
            return [largest_weight([small]) for small in self.thumbnails]
        return [
            max(
                largest_weight([_computation(layers[index], head)(slice(None)).numpy()])
                for layers in (self.layers, self.compared)
                for index in group
                for head in range(layers[index].inputs.heads)
            )
            for group in self.groups
        ]

    def mosaic(self, group: int) -> Header:
        """Returns the mosaic of a group, with the layer and the head of each of its tiles."""
        indices, maps = self.groups[group], self.thumbnails[group]
        picture = layer_mosaic(maps, [self.layers[i].id for i in indices], largest=largest_weight([maps]))
        tiles = len(picture.spec.names)
        picture = picture.with_about(hint=_("Click a head to open it."))
        if self.compared:
            before, after = self.names
            changes = _("{count} small maps of the largest changes from {before} to {after}, one for each head.",
                        count=tiles, before=before, after=after)  # fmt: skip
            picture = picture.with_about(description=changes, hint=_("Largest changes. Click a head to open it."))
        places = map(LayerTiles(*maps.shape[:2]).place, range(tiles))
        sent = header(picture, f"{self.key} heads", height=HEIGHT, grows=False, clicks=True)
        return sent | {"places": [(indices[layer], head) for layer, head in places]}

    # Maps of a head ---------------------------------------------------------------------------------------------------

    def maps(self, index: int, head: int, span: Span | None = None, cells: int = CELLS) -> list[Header]:
        """Returns the chart of a head, or of two maps and their difference.

        A long map has at most `cells` × `cells` cells; `span` is the part of it that is in view.
        """
        if self.compared:
            return self._comparison(index, head)
        long = self.is_long(index)
        viewport = Viewport(span[:2], span[2:]) if long and span else WHOLE
        head_map = self._head_map(self.layers[index], head, viewport, cells)
        if not long:
            picture = head_map.chart(largest=self._largest(index), fan=True)
            picture = picture.with_about(hint=_("Point at a cell to read it, click to pin its query."))
            return [self._sent(picture, "map")]
        inputs = head_map.inputs
        picture = head_map.chart(largest=largest_weight([head_map.weights]))
        return [self._sent(picture, "map", views=True) | {"span": span or (0, inputs.queries, 0, inputs.keys)}]

    def _comparison(self, index: int, head: int) -> list[Header]:
        before, after = (self._head_map(layers[index], head) for layers in (self.layers, self.compared))
        keys, names = (f"{self.key} a", f"{self.key} b"), self.names
        change = head_difference(before, after, charts=keys, names=names, link=self.key)
        sides = [
            self._sent(one.chart(largest=self._largest(index), link=self.key), suffix, title=name)
            for one, suffix, name in zip((before, after), "ab", names, strict=True)
        ]
        return [*sides, self._sent(change, "change", title=f"{names[1]} − {names[0]}")]

    def _change(self, index: int, head: int) -> Map:
        return difference(*(_computation(layers[index], head)(slice(None)) for layers in (self.layers, self.compared)))

    def _head_map(self, layer: Layer, head: int, viewport: Viewport = WHOLE, cells: int = CELLS) -> HeadMap:
        inputs, compute, title = layer.inputs, _computation(layer, head), head_name(layer.id, head)
        if not is_long(inputs):
            weights = compute(slice(None)).numpy()
            return HeadMap(inputs, title, range(inputs.queries), range(inputs.keys), weights, compute)
        rows, keys = slice(*viewport.queries), slice(*viewport.keys)
        downsampled = downsample_map(compute, inputs, cells=(cells, cells), queries=rows, keys=keys)
        return downsampled_head_map(inputs, title, downsampled, compute, viewport)

    def _largest(self, index: int) -> float:
        return self._scales[self.overview[index]["group"]]

    def _sent(self, picture: Chart[HeatmapSpec], suffix: str, *, title: str = "", views: bool = False) -> Header:
        key = f"{self.key} {suffix}"
        return header(picture, key, height=HEIGHT, grows=False, title=title, clicks=True, views=views)


def _computation(layer: Layer, head: int) -> Callable[[slice], Map]:
    """Returns a function that returns the weights of a head for a slice of its queries; NaN where not allowed."""
    return lambda rows: head_map(layer.inputs, layer.mechanism, head, rows=rows).cpu()


def _size(inputs: MapAxes) -> str:
    return dimensions((inputs.heads, inputs.queries, inputs.keys))


def _sizes(sizes: Sequence[str]) -> str:
    return f"{len(sizes)} layers of {' and '.join(sorted({*sizes}))}"
