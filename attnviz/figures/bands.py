"""Frames around cells of a heatmap, bands of them over its whole width or height, and what marks a place of an axis."""

from collections.abc import Sequence

import plotly.graph_objects as go

from attnviz.figures.themes import ACCENT

Edge = float | int  # in cells


def add_bands(
    figure: go.Figure,
    shape: tuple[int, int],
    *,
    rows: Sequence[tuple[int, int]] = (),
    columns: Sequence[tuple[int, int]] = (),
) -> None:
    """Outlines bands of rows and columns of a heatmap.

    Example:
        >>> figure = go.Figure()
        >>> add_bands(figure, (4, 6), rows=[(3, 3)], columns=[(1, 2)])
        >>> [(one.x0, one.x1, one.y0, one.y1) for one in figure.layout.shapes]
        [(-0.5, 5.5, 2.5, 3.5), (0.5, 2.5, -0.5, 3.5)]
    """
    height, width = shape
    boxes = [(0, width - 1, *band) for band in rows] + [(*band, 0, height - 1) for band in columns]
    for box in boxes:
        figure.add_shape(frame(*box, thickness=1.5))


def frame(
    left: Edge, right: Edge, top: Edge, bottom: Edge, thickness: Edge = 3, color: str = ACCENT, half: float = 0.5
) -> dict[str, object]:
    """Returns the shape around the cells of a heatmap from the first to the last column and row, `half` a cell beyond
    their middles."""
    return {
        "type": "rect",
        "line": {"color": color, "width": thickness},
        "x0": left - half,
        "x1": right + half,
        "y0": top - half,
        "y1": bottom + half,
    }


def marked_place(x: float) -> dict[str, object]:
    """Returns a dotted line over the whole height at a place of the axis."""
    return _over_height(x, x) | {"type": "line", "line": {"color": ACCENT, "width": 2, "dash": "dot"}}


def shaded_range(first: float, last: float, color: str) -> dict[str, object]:
    """Returns a background over the whole height between two places of the axis."""
    return _over_height(first, last) | {"type": "rect", "line": {"width": 0}, "fillcolor": color}


def _over_height(first: float, last: float) -> dict[str, object]:
    return {"x0": first, "x1": last, "y0": 0, "y1": 1, "yref": "y domain", "layer": "below"}
