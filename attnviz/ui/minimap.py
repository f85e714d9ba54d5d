"""The viewport of a long map, framed in the small map of its head. A click there moves it."""

from dataclasses import dataclass

from attnviz.figures.bands import frame
from attnviz.figures.chart_spec import MosaicSpec
from attnviz.inputs import MapAxes
from attnviz.state.selection import Selection
from attnviz.state.viewport import WHOLE, Span, Viewport
from attnviz.ui import viewport_sliders

LEAST_SIDE = 2.0  # cells that the frame is high and wide, however small the viewport is


@dataclass(frozen=True, eq=False)
class Minimap:
    """One tile of a mosaic, of a head that is shown in part."""

    spec: MosaicSpec
    tile: int
    inputs: MapAxes
    part: Viewport

    def frame(self) -> dict[str, object]:
        """Returns the shape that shows where the viewport is."""
        top, left = self.spec.corner(self.tile)
        y0, y1 = _framed(self.part.queries, self.inputs.queries, self.spec.height)
        x0, x1 = _framed(self.part.keys, self.inputs.keys, self.spec.width)
        return frame(left + x0, left + x1 - 1, top + y0, top + y1 - 1, thickness=2)

    def move(self, row: int, column: int) -> None:
        """Moves the viewport, as large as it is, to a cell of the mosaic."""
        top, left = self.spec.corner(self.tile)
        queries = _moved(self.part.queries, self.inputs.queries, (row - top + 0.5) / self.spec.height)
        viewport_sliders.move(
            queries, _moved(self.part.keys, self.inputs.keys, (column - left + 0.5) / self.spec.width)
        )


def minimap(selection: Selection, spec: MosaicSpec) -> Minimap | None:
    """Returns the tile of the selected head in a mosaic of this specification; None if all of its map is in view."""
    inputs = selection.inputs
    if selection.viewport is None or not isinstance(selection.head, int) or not selection.is_long:
        return None
    part = selection.viewport.within(inputs)
    if part == WHOLE:
        return None
    tile = selection.tiles.tile(selection.mosaic_layers.index(selection.index), selection.head)
    return Minimap(spec, tile, inputs, part)


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
