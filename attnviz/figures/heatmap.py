"""One head as a heatmap: queries as rows, keys as columns."""

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Bool, Float

from attnviz.base.formatting import visible
from attnviz.base.language import _
from attnviz.figures.bands import frame
from attnviz.figures.chart_spec import About, Chart, HeatmapSpec
from attnviz.figures.colorbar import colorbar
from attnviz.figures.maps import Array, as_array, as_map
from attnviz.figures.sentences import CELL_SENTENCES, CellSentences, label
from attnviz.figures.themes import COLOR_AXES, GAP_CODE, LAST_CODE, light_figure
from attnviz.mechanism import Attention

LABELS = 40  # labels that fit along an axis of a usual picture; the app's chart chooses anew when it is zoomed
INSET = 0.06  # of a cell, between its edge and the outline that marks it
FAINT = "rgba(128,128,128,0.7)"  # of a label whose row or column is still to come
OUTLINE = (("#1b1e2e", 4), ("#ffffff", 2))  # a light line within a dark one: seen on every color of every scale


def heatmap(
    weights: Attention | Float[Array, "*heads queries keys"],
    query_tokens: Sequence[str] | None = None,
    key_tokens: Sequence[str] | None = None,
    *,
    largest: float = 1.0,
    sentences: CellSentences = CELL_SENTENCES,
    zoom_key: str = "",
    link: str = "",
    fan: bool = True,
    scale: Literal["weights", "changes"] | None = None,
    ends: tuple[str, str] = ("", ""),
    whole_numbers: bool = False,
    marked: Sequence[tuple[int, int]] = (),
    blank: Bool[Array, "queries keys"] | None = None,
    cell_sentences: Mapping[tuple[int, int], str] | None = None,
) -> Chart[HeatmapSpec]:
    """Draws the weights of one head as colors from 0 to `largest`; NaN, a cell that is masked, shows the background.

    An `Attention` knows its tokens and what is masked. In a map (queries, keys) of the weights alone, masked cells must
    be NaN, as in `attention.maps`; it has tokens that are given, or numbers.

    The `scale` of changes runs from −largest to largest; it is the default where a weight is negative. `ends` are words
    for both ends of the scale. Cells that are
    `marked`, by row and column, have an outline. Cells that are `blank` must be NaN and have the color of the page.
    The other arguments are those of HeatmapSpec.

    Example:
        >>> chart = heatmap(np.array([[0.9, 0.1]]), ["it"], ["animal", "road"])
        >>> chart.figure.data[0].z.shape, chart.spec.key_tokens
        ((1, 2), ('animal', 'road'))
    """
    weights, query_tokens, key_tokens = as_map(weights, query_tokens, key_tokens)
    queries, keys = weights.shape
    scale = scale or ("changes" if bool((weights < 0).any()) else "weights")
    axis = COLOR_AXES[scale]
    labels = [label(token) for token in query_tokens], [label(token) for token in key_tokens]
    lowest = -largest if scale == "changes" else 0.0
    layout = {
        "shapes": [frame(j, j, i, i, width, color, 0.5 - INSET) for i, j in marked for color, width in OUTLINE],
        "margin": {"l": 8, "r": 8, "t": 44, "b": 8},  # at the top the color bar, also where there is nothing to color
        "dragmode": "zoom",
        axis: {"cmin": lowest, "cmax": largest, "colorbar": colorbar(lowest, largest, ends)},
    }
    traces = [go.Heatmap(z=weights.astype("f4"), coloraxis=axis, zsmooth=False, hoverinfo="none")]
    covered = np.zeros_like(weights, bool) if blank is None else as_array(blank)
    if covered.any():
        for along, texts in enumerate(labels):
            for i in np.flatnonzero(covered.any(1 - along) & np.isnan(weights).all(1 - along)):
                texts[i] = f"<span style='color:{FAINT}'>{texts[i]}</span>"
        codes = np.where(covered, np.float32(GAP_CODE), np.float32(np.nan))
        traces.append(go.Heatmap(z=codes, coloraxis=COLOR_AXES["codes"], zsmooth=False, hoverinfo="none"))
        layout[COLOR_AXES["codes"]] = {"cmin": 0, "cmax": LAST_CODE}
    layout["xaxis"] = {
        "range": [-0.5, keys - 0.5],
        "title": {"text": _("keys"), "standoff": 24},
        "ticklabelstandoff": 3,
        "automargin": True,
        "autotickangles": [0, 90],  # slanted labels would leave the picture at its right edge, where plotly hides them
        **_ticks(labels[1]),
    }
    layout["yaxis"] = {
        "range": [queries - 0.5, -0.5],
        "title": {"text": _("queries"), "standoff": 9},
        "ticklabelstandoff": 3,
        "automargin": True,
        **_ticks(labels[0]),
    }
    figure = light_figure(traces, layout)  # in one step: each update of a figure takes plotly several milliseconds
    spec = HeatmapSpec(
        query_tokens=tuple(visible(token) for token in query_tokens),
        key_tokens=tuple(visible(token) for token in key_tokens),
        query_labels=tuple(labels[0]),
        key_labels=tuple(labels[1]),
        sentences=sentences,
        cell_sentences=dict(cell_sentences or {}),
        whole_numbers=whole_numbers,
        zoom_key=zoom_key,
        link=link,
        fan=fan,
    )
    about = About(
        label=_("Attention weights"),
        description=_(
            "{queries} queries by {keys} keys. The arrow keys move from cell to cell.", queries=queries, keys=keys
        ),
        hint=_("Point at a cell to read it."),
    )
    return Chart(figure, spec, about)


def _ticks(labels: Sequence[str]) -> dict:
    step = -(-len(labels) // LABELS)
    return {"tickvals": list(range(0, len(labels), step)), "ticktext": labels[::step]}
