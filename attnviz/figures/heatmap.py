"""One head as a heatmap: queries as rows, keys as columns."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float

from attnviz.figures.sentences import GIVES, MASKED, label, visible
from attnviz.figures.themes import THEMES

LABELS = 40  # labels that fit along an axis of a usual picture; the app's chart chooses anew when it is zoomed


def heatmap(
    weights: Float[np.ndarray, "queries keys"],
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    *,
    largest: float = 1.0,
    says: str = GIVES,
    zoom: str = "",
) -> go.Figure:
    """Weights as colors from 0 to `largest`; cells that are NaN, not allowed, show the background.

    `layout.meta` holds what a chart needs to say a cell in words: the tokens and the sentence. Where a
    chart draws figures one after the other, it keeps its zoom as long as `zoom` is the same.
    """
    queries, keys = weights.shape
    figure = go.Figure(go.Heatmap(z=weights.astype("f4"), coloraxis="coloraxis", zsmooth=False, hoverinfo="none"))
    figure.update_layout(
        template=THEMES["light"],
        meta={
            "rows": queries,
            "columns": keys,
            "queries": [visible(token) for token in query_tokens],
            "keys": [visible(token) for token in key_tokens],
            "queryLabels": [label(token) for token in query_tokens],
            "keyLabels": [label(token) for token in key_tokens],
            "says": says,
            "zoom": zoom,
            "masked": MASKED,
        },
        coloraxis={
            "cmin": 0,
            "cmax": largest,
            "colorbar": {"orientation": "h", "x": 1, "xanchor": "right", "y": 1, "yanchor": "bottom", "len": 0.5},
        },
        margin={"l": 8, "r": 8, "t": 8, "b": 8},
        dragmode="zoom",
        hovermode=False,
    )
    figure.update_xaxes(
        range=[-0.5, keys - 0.5],
        title={"text": "keys", "standoff": 16},
        automargin=True,
        autotickangles=[0, 90],  # slanted labels would leave the picture at its right edge, where plotly hides them
        **_ticks(key_tokens),
    )
    figure.update_yaxes(
        range=[queries - 0.5, -0.5], title={"text": "queries", "standoff": 4}, automargin=True, **_ticks(query_tokens)
    )
    return figure


def _ticks(tokens: Sequence[str]) -> dict:
    step = -(-len(tokens) // LABELS)
    return {"tickvals": list(range(0, len(tokens), step)), "ticktext": [label(token) for token in tokens[::step]]}
