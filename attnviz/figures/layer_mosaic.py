"""The heads of several layers as one mosaic: a row for each layer, a column for each head."""

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from attnviz.figures.chart_spec import Chart, MosaicSpec
from attnviz.figures.mosaic import mosaic
from attnviz.language import _
from attnviz.layer import LayerId, head_name

MOST_LABELS = 16  # along a mosaic
LEAST_SIDE = 24  # pixels of a map, along each side: what a finger meets, and 12 heads fit on a phone


def layer_mosaic(
    maps: Float[np.ndarray, "layers heads height width"],
    layers: Sequence[LayerId],
    *,
    largest: float,
    chosen: Sequence[tuple[int, int]] = (),
) -> Chart[MosaicSpec]:
    """Draws small maps, NaN where masked, with colors from 0 to `largest`; the heads of one layer alone in a grid.

    The `chosen` heads, pairs of the position of a layer and a head, have a frame. `tile_place` returns which head a
    tile has.

    Example:
        >>> chart = layer_mosaic(np.zeros((2, 3, 4, 4)), [LayerId(index=0), LayerId(index=1)], largest=1.0)
        >>> chart.spec.names[:4], tile_place(3, heads=3)
        (('layer 0, head 0', 'layer 0, head 1', 'layer 0, head 2', 'layer 1, head 0'), (1, 0))
    """
    count, heads = maps.shape[:2]
    tiles = maps.reshape(count * heads, *maps.shape[2:])
    frames = [layer * heads + head for layer, head in chosen]
    if count == 1:
        columns = max(1, round(math.sqrt(0.75 * heads)))
        names = [_("Head {head}", head=head) for head in range(heads)]
        return mosaic(tiles, columns=columns, names=names, chosen=frames, largest=largest)
    return mosaic(
        tiles,
        columns=heads,
        names=[head_name(layer, head) for layer in layers for head in range(heads)],
        row_names=_spaced(_numbers(layers)),
        column_names=_spaced([str(head) for head in range(heads)]),
        chosen=frames,
        largest=largest,
        least=LEAST_SIDE,
    )


def tile_place(tile: int, heads: int) -> tuple[int, int]:
    """Returns the position of the layer and the head of a tile, in a mosaic of layers with this many heads."""
    return divmod(tile, heads)


def _numbers(layers: Sequence[LayerId]) -> list[str]:
    """Returns the numbers of layers, or their positions if the numbers are not unique."""
    numbers = [layer.number for layer in layers]
    return numbers if len({*numbers} - {""}) == len(layers) else [str(i) for i in range(len(layers))]


def _spaced(names: Sequence[str]) -> list[str]:
    """Returns as many of the names as fit along a mosaic, and empty strings instead of the others."""
    step = -(-len(names) // MOST_LABELS)
    return [name if i % step == 0 else "" for i, name in enumerate(names)]
