"""One head as a heatmap: queries as rows, keys as columns."""

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Bool, Float

from attnviz.figures.sentences import GIVES, MASKED, NOTHING, label
from attnviz.figures.themes import COLOR_AXES, GAP_CODE, LAST_CODE, THEMES
from attnviz.formatting import visible

LABELS = 40  # labels that fit along an axis of a usual picture; the app's chart chooses anew when it is zoomed
INSET = 0.06  # of a cell, between its edge and the outline that marks it
FAINT = "rgba(128,128,128,0.7)"  # of a label whose row or column is still to come
OUTLINE = (("#1b1e2e", 4), ("#ffffff", 2))  # a light line within a dark one: seen on every color of every scale


def heatmap(
    weights: Float[np.ndarray, "queries keys"],
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    *,
    largest: float = 1.0,
    says: str = GIVES,
    masked: str = MASKED,
    nothing: str = NOTHING,
    zoom: str = "",
    link: str = "",
    fan: bool = True,
    scale: Literal["weights", "changes"] | None = None,
    whole: bool = False,
    marked: Sequence[tuple[int, int]] = (),
    blank: Bool[np.ndarray, "queries keys"] | None = None,
    cells: Mapping[tuple[int, int], str] | None = None,
) -> go.Figure:
    """Weights as colors from 0 to `largest`; cells that are NaN, not allowed, show the background.

    `layout.meta` holds what a chart needs to say a cell in words: the tokens and the sentences. Where a chart draws
    figures one after the other, it keeps its zoom as long as `zoom` is the same; charts of one `link` show the same
    part and mark the same cell. `fan` draws a query's weights as lines and bars beside the map. The scale of changes
    runs from −largest to largest, and is taken by itself where a weight is negative; `whole` numbers are said without
    decimals. Cells (row, column) that are `marked` have an outline; those that are `blank` are NaN and have the color
    of the page; `cells` have sentences of their own.
    """
    queries, keys = weights.shape
    scale = scale or ("changes" if bool((weights < 0).any()) else "weights")
    axis = COLOR_AXES[scale]
    labels = [label(token) for token in query_tokens], [label(token) for token in key_tokens]
    figure = go.Figure(go.Heatmap(z=weights.astype("f4"), coloraxis=axis, zsmooth=False, hoverinfo="none"))
    if blank is not None and blank.any():
        for along, of in enumerate(labels):
            for i in np.flatnonzero(blank.any(1 - along) & np.isnan(weights).all(1 - along)):
                of[i] = f"<span style='color:{FAINT}'>{of[i]}</span>"
        codes = np.where(blank, np.float32(GAP_CODE), np.float32(np.nan))
        figure.add_heatmap(z=codes, coloraxis=COLOR_AXES["codes"], zsmooth=False, hoverinfo="none")
        figure.layout[COLOR_AXES["codes"]] = {"cmin": 0, "cmax": LAST_CODE}
    figure.update_layout(
        template=THEMES["light"],
        shapes=[_outline(*cell, *line) for cell in marked for line in OUTLINE],
        meta={
            "rows": queries,
            "columns": keys,
            "queries": [visible(token) for token in query_tokens],
            "keys": [visible(token) for token in key_tokens],
            "queryLabels": labels[0],
            "keyLabels": labels[1],
            "says": says,
            "masked": masked,
            "nothing": nothing,
            "zoom": zoom,
            "link": link,
            "fan": fan,
            "whole": whole,
            "cells": {f"{row} {column}": said for (row, column), said in (cells or {}).items()},
        },
        margin={"l": 8, "r": 8, "t": 44, "b": 8},  # at the top the color bar, also where there is nothing to color
        dragmode="zoom",
        hovermode=False,
    )
    # More numbers than these would stand upright beside a narrow map.
    colorbar = {"orientation": "h", "x": 1, "xanchor": "right", "y": 1, "yanchor": "bottom", "len": 0.5, "nticks": 4}
    figure.layout[axis] = {
        "cmin": -largest if scale == "changes" else 0,
        "cmax": largest,
        "colorbar": colorbar,
    }
    figure.update_xaxes(
        range=[-0.5, keys - 0.5],
        title={"text": "keys", "standoff": 24},
        automargin=True,
        autotickangles=[0, 90],  # slanted labels would leave the picture at its right edge, where plotly hides them
        **_ticks(labels[1]),
    )
    figure.update_yaxes(
        range=[queries - 0.5, -0.5], title={"text": "queries", "standoff": 12}, automargin=True, **_ticks(labels[0])
    )
    return figure


def _outline(row: int, column: int, color: str, width: int) -> dict:
    half = 0.5 - INSET
    return {
        "type": "rect", "line": {"color": color, "width": width},
        "x0": column - half, "x1": column + half, "y0": row - half, "y1": row + half,
    }  # fmt: skip


def _ticks(labels: Sequence[str]) -> dict:
    step = -(-len(labels) // LABELS)
    return {"tickvals": list(range(0, len(labels), step)), "ticktext": labels[::step]}
