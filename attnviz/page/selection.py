"""The selection of a page: a head of one layer of a source, and the display of its maps."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from attnviz.analysis.head_maps import HeadChoice, Rollout, Special, shown_positions
from attnviz.base.cached_property import cached_property
from attnviz.base.formatting import numbered_tokens
from attnviz.base.language import _, option_name
from attnviz.figures.downsampled_map import CELL_COLORS, CellColors
from attnviz.figures.layer_mosaic import LayerTiles
from attnviz.inputs import MapAxes
from attnviz.layer import Kind, Layer, head_name
from attnviz.mechanism import Mechanism
from attnviz.page.color_range import ColorRange
from attnviz.page.viewport import Viewport, is_long, numbered_token
from attnviz.sources import Source


@dataclass(frozen=True, eq=False, kw_only=True)
class Selection:
    """A head of one layer of a source, and the display of its maps.

    It holds choices, not weights. The widgets of a page make it, and every part of the page draws something of it;
    `head_map` computes from it.
    """

    source: Source  # its `repr` is the key under which what is computed is kept
    layers: Sequence[Layer]  # with the mechanisms that are shown
    index: int  # of the layer
    head: HeadChoice
    special: Special = Special.SHOWN
    colors: ColorRange = ColorRange.SHOWN
    all_layers: bool = False  # whether the mosaic has all layers that fit into it, or this one alone
    viewport: Viewport | None = None  # None: maps are drawn whole, however long the text is
    cell_colors: CellColors = CELL_COLORS  # of a long map
    cells: int | None = None  # of a long map, along each side, if others than usual

    @property
    def layer(self) -> Layer:
        return self.layers[self.index]

    @property
    def inputs(self) -> MapAxes:
        return self.layer.inputs

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism of the layer. Raises ValueError if there are only weights."""
        return self.layer.known_mechanism

    @property
    def is_long(self) -> bool:
        """Whether the map is drawn in fewer cells."""
        return self.viewport is not None and is_long(self.layer.inputs)

    @property
    def mosaic_layers(self) -> list[int]:
        """The indices of the layers in the mosaic."""
        return similar_layers(self.layers, self.index) if self.all_layers else [self.index]

    @property
    def tiles(self) -> LayerTiles:
        """The tiles of the mosaic."""
        return LayerTiles(len(self.mosaic_layers), self.inputs.heads)

    @cached_property
    def queries(self) -> list[int]:
        """The positions of the queries that are shown."""
        inputs = self.layer.inputs
        return shown_positions(inputs.queries, inputs.special_queries, self.special)

    @cached_property
    def keys(self) -> list[int]:
        """The positions of the keys that are shown."""
        inputs = self.layer.inputs
        return shown_positions(inputs.keys, inputs.special_keys, self.special)

    @cached_property
    def query_names(self) -> list[str]:
        """The queries as menus name them: “10 · it”."""
        return numbered_tokens(self.queries, [self.layer.inputs.query_tokens[i] for i in self.queries])

    def shown_query(self, row: int) -> str:
        """Returns one of the shown queries, in long texts with its position."""
        return numbered_token(self.inputs, self.inputs.query_tokens, self.queries[row])

    def shown_key(self, column: int) -> str:
        """Returns one of the shown keys, in long texts with its position."""
        return numbered_token(self.inputs, self.inputs.key_tokens, self.keys[column])

    @property
    def first_row(self) -> int | None:
        """The row that is pinned at first: that of the source, of a picture that of the first token that is no patch,
        such as [CLS], or of a text with a picture that of the last, or else one in the middle; None if no query is
        shown."""
        opening, grids = self.source.opening.query, self.inputs.query_grids
        if opening is None and grids:
            patches = {position for grid in grids for position in grid.positions}
            others = [i for i in self.queries if i not in patches]
            opening = next(iter(others[-1:] if self.layer.id.stack == "text" else others), None)
        if opening in self.queries:
            return self.queries.index(opening)
        return len(self.queries) // 2 if self.queries else None

    @property
    def title(self) -> str:
        """The head's name: “encoder 3, head 1”."""
        if isinstance(self.head, int):
            return head_name(self.layer.id, self.head)
        if isinstance(self.head, Rollout):
            return _("rollout up to {layer}", layer=option_name(self.layer.name))
        return f"{option_name(self.layer.name)}, {_('{head} of heads', head=_(str(self.head)))}"

    def with_mechanism(self, mechanism: Mechanism) -> Self:
        """Returns the same selection with another mechanism in its layer."""
        layers = [*self.layers]
        layers[self.index] = replace(self.layer, mechanism=mechanism)
        return replace(self, layers=layers)


def similar_layers(layers: Sequence[Layer], index: int) -> list[int]:
    """Returns the layers of one mosaic with this one: of its stack, with equal numbers of heads and tokens."""
    groups = mosaic_groups(layers)
    return next(group for group in groups if index in group)


def mosaic_groups(layers: Sequence[Layer]) -> list[list[int]]:
    """Returns the indices of the layers of each mosaic: of one stack, with equal numbers of heads and tokens."""
    groups: dict[tuple[object, ...], list[int]] = {}
    for index, layer in enumerate(layers):
        groups.setdefault(_mosaic_group(layer), []).append(index)
    return list(groups.values())


def _mosaic_group(layer: Layer) -> tuple[object, ...]:
    """Returns what layers of one mosaic have in common."""
    inputs = layer.inputs
    sizes = (inputs.heads, inputs.queries, inputs.keys, len(inputs.special_queries), len(inputs.special_keys))
    return layer.id.stack, layer.kind is Kind.CROSS, *sizes
