"""The heads of several layers as one mosaic: a row for each layer, or of many layers a column."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from attnviz.base.language import _
from attnviz.figures.chart_spec import Chart, MosaicSpec
from attnviz.figures.mosaic import mosaic
from attnviz.layer import LayerId, head_name

MOST_LABELS = 16  # along a mosaic
LEAST_SIDE = 24  # pixels of a map, along each side: what a finger meets, and 12 heads fit on a phone
MOST_ROWS = 18  # layers that fit below each other on a laptop
LEAST_WIDTH = 29  # pixels of a map where layers run from left to right: 30 fit on a laptop


@dataclass(frozen=True)
class LayerTiles:
    """The tiles of the heads of some layers: a row for each layer, or of more than MOST_ROWS layers a column.

    Example:
        >>> LayerTiles(layers=6, heads=12).tile(layer=1, head=2), LayerTiles(layers=30, heads=9).tile(layer=1, head=2)
        (14, 61)
    """

    layers: int
    heads: int

    @property
    def is_wide(self) -> bool:
        """Whether layers run from left to right."""
        return self.layers > MOST_ROWS

    @property
    def columns(self) -> int:
        return self.layers if self.is_wide else self.heads

    def tile(self, layer: int, head: int) -> int:
        """Returns the tile of a head of the layer at this position."""
        return head * self.layers + layer if self.is_wide else layer * self.heads + head

    def place(self, tile: int) -> tuple[int, int]:
        """Returns the position of the layer, and the head, of a tile."""
        row, column = divmod(tile, self.columns)
        return (column, row) if self.is_wide else (row, column)


def layer_mosaic(
    maps: Float[np.ndarray, "layers heads height width"],
    layers: Sequence[LayerId],
    *,
    largest: float,
    chosen: Sequence[tuple[int, int]] = (),
) -> Chart[MosaicSpec]:
    """Draws small maps, NaN where masked, with colors from 0 to `largest`; the heads of one layer alone in a grid.

    The `chosen` heads, pairs of the position of a layer and a head, have a frame. `LayerTiles` says which head a tile
    has.

    Example:
        >>> chart = layer_mosaic(np.zeros((2, 3, 4, 4)), [LayerId(index=0), LayerId(index=1)], largest=1.0)
        >>> chart.spec.names[:4], LayerTiles(2, 3).place(3)
        (('layer 0, head 0', 'layer 0, head 1', 'layer 0, head 2', 'layer 1, head 0'), (1, 0))
    """
    count, heads = maps.shape[:2]
    tiles = LayerTiles(count, heads)
    frames = [tiles.tile(*place) for place in chosen]
    if count == 1:
        columns = max(1, round(math.sqrt(0.75 * heads)))
        names = [_("Head {head}", head=head) for head in range(heads)]
        return mosaic(maps[0], columns=columns, names=names, chosen=frames, largest=largest)
    axes = [("layers", _spaced(_numbers(layers))), ("heads", _spaced([str(head) for head in range(heads)]))]
    (down, row_names), (across, column_names) = reversed(axes) if tiles.is_wide else axes
    return mosaic(
        (maps.swapaxes(0, 1) if tiles.is_wide else maps).reshape(count * heads, *maps.shape[2:]),
        columns=tiles.columns,
        names=[head_name(layers[layer], head) for layer, head in map(tiles.place, range(count * heads))],
        row_names=row_names,
        column_names=column_names,
        axes=(down, across),
        chosen=frames,
        largest=largest,
        least=LEAST_WIDTH if tiles.is_wide else LEAST_SIDE,
    )


def _numbers(layers: Sequence[LayerId]) -> list[str]:
    """Returns the numbers of layers, or their positions if the numbers are not unique."""
    numbers = [layer.number for layer in layers]
    return numbers if len({*numbers} - {""}) == len(layers) else [str(i) for i in range(len(layers))]


def _spaced(names: Sequence[str]) -> list[str]:
    """Returns as many of the names as fit along a mosaic, and empty strings instead of the others."""
    step = -(-len(names) // MOST_LABELS)
    return [name if i % step == 0 else "" for i, name in enumerate(names)]
