"""A downsampled map, of more queries and keys than a screen has room for."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from attnviz.analysis.downsampling import Downsampled
from attnviz.base.formatting import significant, visible
from attnviz.base.language import N_, _
from attnviz.figures.chart_spec import Chart, DownsampledSpec, HeatmapSpec
from attnviz.figures.heatmap import heatmap
from attnviz.figures.maps import as_array
from attnviz.figures.sentences import GIVES, CellSentences

MASKED = N_("Nothing here may be looked at.")
OF_SEVERAL = N_("The most of {pairs} pairs here; mass {mass}, mean weight {mean}.")
DECADES = 4  # of a logarithmic scale; what is less has its first color


class Quantity(StrEnum):
    """The number of a cell that its color shows, as in the menu and the link."""

    MASS = N_("Mass")
    MAXIMUM = N_("Largest weight")
    MEAN = N_("Mean weight")

    def of_cells(self, downsampled: Downsampled) -> Float[np.ndarray, "rows columns"]:
        """Returns the number of each cell; NaN where nothing is allowed."""
        values = {
            Quantity.MASS: downsampled.mass,
            Quantity.MAXIMUM: downsampled.maximum,
            Quantity.MEAN: downsampled.mean,
        }[self]
        return torch.where(downsampled.allowed > 0, values, torch.nan).numpy()


class Scale(StrEnum):
    """The scale of the colors, as in the menu and the link."""

    LINEAR = N_("Linear")
    SQUARE_ROOT = N_("Square root")
    LOGARITHMIC = N_("Logarithmic")

    def place(self, values: Float[np.ndarray, "*shape"], largest: float) -> Float[np.ndarray, "*shape"]:
        """Returns where values from −largest to largest stand on a scale from −1 to 1.

        Example:
            >>> Scale.SQUARE_ROOT.place(np.array([0.0, 0.25, -1.0]), 1.0)
            array([ 0. ,  0.5, -1. ])
        """
        share = np.abs(values) / largest
        if self is Scale.SQUARE_ROOT:
            share = np.sqrt(share)
        elif self is Scale.LOGARITHMIC:
            least = 10.0**-DECADES
            share = 1 + np.log10(np.maximum(share, least)) / DECADES
        return np.copysign(share, values)

    def invert(self, place: float, largest: float) -> float:
        """Returns the value at a place from 0 to 1; the inverse of `place`."""
        powers = {Scale.LINEAR: place, Scale.SQUARE_ROOT: place**2, Scale.LOGARITHMIC: 10 ** (DECADES * (place - 1))}
        return largest * powers[self]


@dataclass(frozen=True)
class CellColors:
    """What the colors of a downsampled map show, and by which scale."""

    quantity: Quantity = Quantity.MASS
    scale: Scale = Scale.SQUARE_ROOT


CELL_COLORS = CellColors()


def downsampled_map(
    downsampled: Downsampled,
    query_tokens: Sequence[str] | None = None,
    key_tokens: Sequence[str] | None = None,
    *,
    colors: CellColors = CELL_COLORS,
    largest: float | None = None,
    allowed: str = GIVES,
    zoom_key: str = "",
    link: str = "",
    viewport: bool = False,
) -> Chart[HeatmapSpec]:
    """Draws a downsampled map: a cell's sentence has its mass, its mean weight, and its largest weight with its tokens.

    The tokens are those of all positions, by default numbers. An axis has tokens where each row or column is one
    position, and numbers of positions where it is several. The last color is that of `largest`, by default the largest
    number in the map. `allowed` is the sentence of a cell that is not masked. A map that is a `viewport` is a part of a
    larger one, to which the chart can go back.
    """
    query_tokens = query_tokens or _numbers(downsampled.queries)
    key_tokens = key_tokens or _numbers(downsampled.keys)
    values = colors.quantity.of_cells(downsampled)
    numbers = values[~np.isnan(values)]
    largest = largest or float(np.abs(numbers).max(initial=0)) or 1.0
    chart = heatmap(
        colors.scale.place(values, largest),
        *cell_names(downsampled, query_tokens, key_tokens),
        scale="changes" if (numbers < 0).any() else "weights",
        sentences=CellSentences(allowed, MASKED, MASKED),
        zoom_key=zoom_key,
        link=link,
        fan=False,
    )
    for axis in chart.figure.select_coloraxes():
        axis.colorbar.update(scale_ticks(colors.scale, largest, float(axis.cmin)))
    about = replace(
        chart.about,
        description=_(
            "{queries} queries by {keys} keys, in fewer cells. The arrow keys move from cell to cell.",
            queries=len(downsampled.queries),
            keys=len(downsampled.keys),
        ),
        hint=_("{quantity} of each cell.", quantity=_(colors.quantity)),
    )
    spec = replace(chart.spec, downsampled=_spec(downsampled, query_tokens, key_tokens, viewport))
    return Chart(chart.figure, spec, about)


def cell_names(
    downsampled: Downsampled, query_tokens: Sequence[str], key_tokens: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Returns the names of rows and columns: their tokens, or the first position where one stands for several."""
    rows, columns = downsampled.row_edges[:-1].tolist(), downsampled.column_edges[:-1].tolist()
    return (
        [query_tokens[i] if len(rows) == len(downsampled.queries) else str(i) for i in rows],
        [key_tokens[i] if len(columns) == len(downsampled.keys) else str(i) for i in columns],
    )


def _spec(
    downsampled: Downsampled, query_tokens: Sequence[str], key_tokens: Sequence[str], viewport: bool
) -> DownsampledSpec:
    """Returns the specification: of a long text only the tokens that a cell names, each once."""
    index: dict[str, int] = {}

    def token_indices(positions: Int[Tensor, "rows columns"], tokens: Sequence[str]) -> Int[np.ndarray, "rows columns"]:
        distinct, place = positions.unique(return_inverse=True)
        names = [visible(tokens[i]) if i >= 0 else "" for i in distinct.tolist()]
        return np.array([index.setdefault(name, len(index)) for name in names], dtype=np.int32)[place.numpy()]

    query, key = token_indices(downsampled.query, query_tokens), token_indices(downsampled.key, key_tokens)
    return DownsampledSpec(
        tuple(index),
        query,
        key,
        as_array(downsampled.query).astype(np.int32),
        as_array(downsampled.key).astype(np.int32),
        as_array(downsampled.mass),
        as_array(downsampled.maximum),
        as_array(downsampled.mean),
        as_array(downsampled.allowed).astype(np.int32),
        f" {_(OF_SEVERAL)}",
        viewport,
    )


def scale_ticks(scale: Scale, largest: float, lowest: float) -> dict[str, list]:
    """Returns the ticks of an axis from `lowest`, 0 or −1, to 1, with the numbers that they stand for."""
    places = [0.0, 0.5, 1.0] if lowest == 0 else [-1.0, 0.0, 1.0]
    values = [np.copysign(scale.invert(abs(place), largest), place) for place in places]
    texts = [significant(float(value), 2) for value in values]
    if scale is Scale.LOGARITHMIC:
        texts[places.index(0.0)] = f"≤ {significant(scale.invert(0.0, largest), 2)}"
    return {"tickvals": places, "ticktext": texts}


def _numbers(positions: Int[Tensor, " n"]) -> list[str]:
    return [str(i) for i in range(int(positions.max()) + 1)]
