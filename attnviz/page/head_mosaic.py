"""The mosaic of the heads of a selection, and the part of a long map that is in view in it."""

import numpy as np
from jaxtyping import Float

from attnviz.base.language import _
from attnviz.figures import Chart
from attnviz.figures.bands import frame
from attnviz.figures.chart_spec import MosaicSpec
from attnviz.figures.layer_mosaic import layer_mosaic
from attnviz.inputs import MapAxes
from attnviz.page.selected_maps import thumbnail_sample
from attnviz.page.selection import Selection
from attnviz.page.viewport import WHOLE, Span, Viewport

LEAST_SIDE = 2.0  # cells that the frame is high and wide, however small the viewport is


def head_mosaic(
    selection: Selection, thumbnails: Float[np.ndarray, "heads height width"], largest: float, hint: str = ""
) -> Chart[MosaicSpec]:
    """Returns the mosaic of a selection with colors up to `largest`, in which the selected head is framed."""
    indices = selection.mosaic_layers
    heads, count, sample = selection.inputs.heads, len(indices), thumbnail_sample(selection)
    if selection.is_long:
        thumbnails, largest = selection.cell_colors.scale.place(thumbnails, largest), 1.0
    picture = layer_mosaic(
        thumbnails.reshape(count, heads, *thumbnails.shape[1:]),
        [selection.layers[i].id for i in indices],
        largest=largest,
        chosen=[(indices.index(selection.index), selection.head)] if isinstance(selection.head, int) else [],
    )
    part = part_in_view(selection)
    if part is not None:
        picture.figure.add_shape(_view_frame(selection, picture.spec, part))
    hints = [hint] * bool(hint) + [_("The frame is the part in view.")] * (part is not None)
    if sample:
        hints.append(_("Each row of its cells: {sample} queries.", sample=sample))
    return picture.with_about(hint=" ".join(hints))


def head_of_tile(selection: Selection, spec: MosaicSpec, row: int, column: int) -> tuple[int, int] | None:
    """Returns the index of the layer and the head of a cell of the mosaic; None between two heads."""
    tile = spec.head_at(row, column)
    if tile is None:
        return None
    layer, head = selection.tiles.place(tile)
    return selection.mosaic_layers[layer], head


def part_in_view(selection: Selection) -> Viewport | None:
    """Returns the part of the map of the selected head that is in view; None if all of it is."""
    if selection.viewport is None or not isinstance(selection.head, int) or not selection.is_long:
        return None
    part = selection.viewport.within(selection.inputs)
    return None if part == WHOLE else part


def moved_part(selection: Selection, spec: MosaicSpec, row: int, column: int) -> tuple[slice, slice] | None:
    """Returns the queries and keys of the part in view, as large as it is, where a cell of the small map of its head is
    its middle; None for a cell that is not in that map."""
    part = part_in_view(selection)
    if part is None or head_of_tile(selection, spec, row, column) != (selection.index, selection.head):
        return None
    top, left = spec.corner(_own_tile(selection))
    inputs = selection.inputs
    queries = _moved(part.queries, inputs.queries, (row - top + 0.5) / spec.height)
    return queries, _moved(part.keys, inputs.keys, (column - left + 0.5) / spec.width)


def _own_tile(selection: Selection) -> int:
    assert isinstance(selection.head, int)
    return selection.tiles.tile(selection.mosaic_layers.index(selection.index), selection.head)


def _view_frame(selection: Selection, spec: MosaicSpec, part: Viewport) -> dict[str, object]:
    """Returns the shape that shows where the part in view is."""
    inputs: MapAxes = selection.inputs
    top, left = spec.corner(_own_tile(selection))
    y0, y1 = _framed(part.queries, inputs.queries, spec.height)
    x0, x1 = _framed(part.keys, inputs.keys, spec.width)
    return frame(left + x0, left + x1 - 1, top + y0, top + y1 - 1, thickness=2)


def _framed(span: Span, count: int, cells: int) -> tuple[float, float]:
    """Returns the ends of a span along `cells` cells, within them and at least LEAST_SIDE apart."""
    first, end = (end * cells / count for end in (span[0], count if span[1] is None else span[1]))
    first = min(first, max(0.0, (first + end - LEAST_SIDE) / 2), cells - LEAST_SIDE)
    return first, max(end, first + LEAST_SIDE)


def _moved(span: Span, count: int, share: float) -> slice:
    """Returns a span of the same length around a share of the positions."""
    length = (count if span[1] is None else span[1]) - span[0]
    first = min(max(0, round(share * count - length / 2)), count - length)
    return slice(first, first + length)
