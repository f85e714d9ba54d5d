"""A grid with a cell for each head, colored by one metric, in the order of a mosaic of layers."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float

from attnviz.base.language import N_, _
from attnviz.figures.chart_spec import About, Chart, MosaicSpec
from attnviz.figures.colorbar import colorbar
from attnviz.figures.layer_mosaic import LEAST_WIDTH, LayerTiles
from attnviz.figures.maps import Array, as_array
from attnviz.figures.mosaic import tiled
from attnviz.figures.sentences import escaped
from attnviz.figures.themes import COLOR_AXES
from attnviz.layer import LayerId, head_name

GAP = 2  # pixels between two heads
TALL = 1.3  # a head's height for its width, at most
MOST_NUMBERS = 16  # numbers that fit along an axis


def head_grid(
    values: Float[Array, "layers heads"],
    names: Sequence[str] | None = None,
    *,
    largest: float | None = None,
    chosen: Sequence[tuple[int, int]] = (),
    layer_names: Sequence[str] = (),
    head_names: Sequence[str] = (),
    signed: bool = False,
    reverse: bool = False,
    ends: tuple[str, str] = ("", ""),
    heads_name: str = N_("heads"),
) -> Chart[MosaicSpec]:
    """Draws values as colors from 0 to `largest`, by default the greatest value; NaN has no color. `signed` values have
    the scale of differences, from −`largest`; `reverse` gives negative ones the color of positive ones, as a head
    without which a number falls is for it. `ends` are labels for both ends of the scale, which says what is beyond it.

    Rows are layers and columns are heads, or the other way round if `LayerTiles` says so. `names` are the sentences of
    the cells, layer by layer, and empty where there is no head; by default “layer 0, head 0”. `layer_names` are by
    default numbers. `heads_name` is the title of the axis of heads. The `chosen` cells, pairs of a layer and a head,
    have a frame. `spec.head_at` returns the tile that was clicked, as in a mosaic.

    Example:
        >>> grid = head_grid(np.array([[0.2, 0.8]]), ["head 0", "head 1"])
        >>> grid.spec.head_at(row=0, column=1)
        1
    """
    values = as_array(values)
    layers, heads = values.shape
    tiles = LayerTiles(layers, heads)
    if names is None:
        names = [head_name(LayerId(index=layer), head) for layer in range(layers) for head in range(heads)]
    if largest is None:
        largest = float(np.nanmax(np.abs(values) if signed else values, initial=0)) or 1.0
    axis, lowest = COLOR_AXES["changes" if signed else "weights"], -largest if signed else 0.0
    beyond = bool(np.nanmin(values, initial=0) < lowest), bool(np.nanmax(values, initial=0) > largest)
    bar = colorbar(lowest, largest, ends, beyond)
    cells = values.T if tiles.is_wide else values
    rows, columns = cells.shape
    places = map(tiles.place, range(layers * heads))
    spec = MosaicSpec(
        tuple(names[layer * heads + head] for layer, head in places),
        rows,
        columns,
        aspect=None if tiles.is_wide else TALL * rows / columns,
        least=LEAST_WIDTH if tiles.is_wide else 0,
    )
    axes = [(_("layers"), _ticks(layers, layer_names)), (_(heads_name), _ticks(heads, head_names))]
    (down, row_ticks), (across, column_ticks) = reversed(axes) if tiles.is_wide else axes
    figure = tiled(
        spec,
        go.Heatmap(z=cells.astype("f4"), coloraxis=axis, zsmooth=False, hoverinfo="none", xgap=GAP, ygap=GAP),
        [tiles.tile(*place) for place in chosen],
        **{axis: {"cmin": lowest, "cmax": largest, "colorbar": bar, "reversescale": reverse}},
        margin={"l": 8, "r": 8, "t": 44, "b": 8},
        xaxis={"title": {"text": across, "standoff": 18}, "automargin": True, **column_ticks},
        yaxis={"title": {"text": down, "standoff": 4}, "automargin": True, **row_ticks},
    )
    about = About(
        label=_("Heads"),
        description=_("{rows} layers by {columns} heads, a cell each.", rows=layers, columns=heads),
    )
    return Chart(figure, spec, about)


def _ticks(count: int, names: Sequence[str] = ()) -> dict:
    step = -(-count // MOST_NUMBERS)
    texts = {"ticktext": [escaped(name) for name in names[::step]]} if names else {}
    return {"tickvals": list(range(0, count, step))} | texts
