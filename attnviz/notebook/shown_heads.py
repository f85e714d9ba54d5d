"""What `attnviz.show` shows: a mosaic of all heads, and the map of one, or two maps and their difference."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float

from attnviz.analysis.difference import difference
from attnviz.analysis.downsampling import thumbnails
from attnviz.analysis.head_maps import maps_of_heads
from attnviz.base.cached_property import cached_property
from attnviz.base.formatting import dimensions
from attnviz.base.language import _
from attnviz.base.link import Link
from attnviz.figures.layer_mosaic import layer_mosaic
from attnviz.layer import FixedWeights, Layer, WeightsOnly
from attnviz.page.blocks import Block, Columns, Control, Figure, Row
from attnviz.page.color_range import largest_weight
from attnviz.page.fields import ChoiceField
from attnviz.page.head_difference import head_difference
from attnviz.page.head_mosaic import head_of_tile
from attnviz.page.head_state import MOST_NAMES, QueryField
from attnviz.page.head_view import HEIGHT, HeadView, heads_and_map, map_figure
from attnviz.page.long_map_state import LongMapState
from attnviz.page.page_view import difference_panel
from attnviz.page.result_cache import result_cache
from attnviz.page.selected_maps import map_panel, selected_map, thumbnail_size
from attnviz.page.selection import Selection
from attnviz.page.source_field import HeadField, head_names
from attnviz.page.viewport import MOST_CELLS, is_long
from attnviz.sources.source import Source

CHARTS, LINK = ("before", "after"), "maps"


@dataclass(frozen=True, eq=False)
class ShownLayers(Source):
    """Layers that a program has, with the layers that they are compared with, if any. `key` tells them from others, and
    `mosaic` their small maps."""

    keeps_layers: ClassVar[bool] = True
    key: str
    shown: Sequence[Layer] = field(repr=False)
    compared: "ShownLayers | None" = field(default=None, repr=False)
    names: tuple[str, str] = field(default=("A", "B"), repr=False)
    mosaic: str = field(default="", repr=False)
    figures: dict[object, Figure] = field(default_factory=dict, repr=False)  # of mosaics, which states share

    def __post_init__(self) -> None:
        """Raises ValueError if two sources do not have the same layers, heads and lengths, or are too long."""
        if self.compared is None:
            return
        (first, sizes), (second, others) = zip(self.names, (self.sizes, self.compared.sizes), strict=True)
        if sizes != others:
            raise ValueError(
                "Two sources can be compared if their layers have equal numbers of heads, queries and keys. "
                f"{first} has {_listed(sizes)}, {second} has {_listed(others)}."
            )
        if any(is_long(layer.inputs) for layer in self.shown):
            raise ValueError(f"Maps of more than {MOST_CELLS:,} cells cannot be compared. Choose fewer tokens.")

    def layers(self) -> Sequence[Layer]:
        return self.shown

    @property
    def sizes(self) -> list[str]:
        """The numbers of heads, queries and keys of each layer."""
        inputs = [layer.inputs for layer in self.shown]
        return [dimensions((each.heads, each.queries, each.keys)) for each in inputs]


def _listed(sizes: Sequence[str]) -> str:
    return f"{len(sizes)} layers of {' and '.join(sorted({*sizes}))}"


class OneHeadField(HeadField):
    """A head of the layer."""

    def options(self, state: Any) -> Mapping[str, int]:
        return {name: head for head, name in enumerate(head_names(state.inputs.heads))}


class MarkedQueryField(QueryField):
    """The row that a browser marks, which no link has; None at first."""

    is_linked = False

    def __init__(self) -> None:
        super().__init__()
        self.opening = lambda _state: None


class ShownState(LongMapState):
    """A head of layers that a program has, and of a long map the part in view. `states_of` returns the class of some
    layers."""

    source: ShownLayers
    head = OneHeadField()
    query = MarkedQueryField()

    @cached_property
    def selection(self) -> Selection:
        """The head among the heads of all layers that fit into its mosaic."""
        return replace(super().selection, all_layers=True, viewport=self.viewport)


def states_of(source: ShownLayers) -> type[ShownState]:
    """Returns the class of the states of some layers, which no link has."""
    return type("ShownState", (ShownState,), {"source": source})


def shown_blocks(state: ShownState, cells: int | None = None) -> Iterator[Block]:
    """Yields the menus, the mosaic of all heads, and the map of the selected one, or two maps and their difference. A
    long map has at most `cells` × `cells` cells, if they are not as many as usual."""
    selection = replace(state.selection, cells=cells)
    menus: list[ChoiceField[Any]] = [ShownState.layer, ShownState.head]
    menus += [ShownState.query] if selection.inputs.queries <= MOST_NAMES and not selection.is_long else []
    yield Row([Control(menu, state) for menu in menus if len(menu.options(state)) > 1], "page-question")
    source, indices = state.source, tuple(selection.mosaic_layers)
    key = "small maps", source.mosaic or source.key, indices
    small, largest = result_cache().once(partial(_small_maps, source, selection), *key)
    if source.compared is None:
        maps = [replace(map_figure(state, HeadView(selection, selected_map(selection), small), None), opens=None)]
    else:
        maps = _compared_maps(source.compared, selection, largest, source.names)
    if len(state.layers) == selection.inputs.heads == 1:
        yield Columns([(1 / len(maps), [each]) for each in maps])
        return
    place = indices, state.viewport
    heads = source.figures[place] = source.figures.get(place) or _heads(state, small)
    if source.compared is None:
        yield from heads_and_map(selection, heads, maps[0])
    else:
        yield Columns([(0.28, [heads]), *((0.24, [each]) for each in maps)])


def _small_maps(source: ShownLayers, selection: Selection) -> tuple[Float[np.ndarray, "heads height width"], float]:
    """Returns small maps of all heads of a mosaic, layer by layer, and their largest weight. Of two sources they are
    the largest changes, and the largest weight is that of both."""
    layers, size = _of_mosaic(source, selection), thumbnail_size(selection.inputs.heads, len(selection.mosaic_layers))
    if source.compared is None:
        small = thumbnails(layers, size).cpu().numpy()
        return small, largest_weight([small])
    changes, ends = [], []
    for pair in zip(layers, _of_mosaic(source.compared, selection), strict=True):
        before, after = (maps_of_heads(layer.inputs, layer.mechanism).cpu() for layer in pair)
        ends.append(largest_weight([before.numpy(), after.numpy()]))
        change = torch.stack([*map(difference, before, after)]).abs()
        inputs = WeightsOnly(change, pair[0].inputs.query_tokens, pair[0].inputs.key_tokens)
        changes.append(replace(pair[0], inputs=inputs, mechanism=FixedWeights()))
    return thumbnails(changes, size).numpy(), max(ends)


def _of_mosaic(source: ShownLayers, selection: Selection) -> list[Layer]:
    return [source.layers()[i] for i in selection.mosaic_layers]


def _heads(state: ShownState, small: Float[np.ndarray, "heads height width"]) -> Figure:
    """Returns the mosaic, where a click opens a head. The states of its heads share it."""
    source, selection = state.source, state.selection
    ids = [state.layers[i].id for i in selection.mosaic_layers]
    maps = small.reshape(len(ids), -1, *small.shape[1:])
    picture = layer_mosaic(maps, ids, largest=largest_weight([maps])).with_about(hint=_("Click a head to open it."))
    if source.compared is not None:
        before, after = source.names
        changes = _("{count} small maps of the largest changes from {before} to {after}, one for each head.",
                    count=len(small), before=before, after=after)  # fmt: skip
        picture = picture.with_about(description=changes, hint=_("Largest changes. Click a head to open it."))

    def opens(row: int, column: int) -> Link | None:
        head = head_of_tile(selection, picture.spec, row, column)
        return None if head is None else state.link_with(layer=head[0], head=head[1])

    return Figure(picture, "heads", HEIGHT, opens)


def _compared_maps(other: ShownLayers, selection: Selection, largest: float, names: tuple[str, str]) -> list[Figure]:
    """Returns the map of the selected head, that of the other source, and their difference."""
    before, after = selected_map(selection), selected_map(replace(selection, source=other, layers=other.layers()))
    change = head_difference(before, after, charts=CHARTS, names=names, link=LINK)
    pictures = [one.chart(largest=largest, link=LINK) for one in (before, after)]
    panels = [map_panel(before, names[0], None), map_panel(after, names[1], None)]
    panels.append(difference_panel(panels[0], panels[1], f"{names[1]} − {names[0]}"))
    return [
        Figure(picture, name, HEIGHT, panels=[panel], title=panel.title)
        for picture, name, panel in zip((*pictures, change), (*CHARTS, "difference"), panels, strict=True)
    ]
