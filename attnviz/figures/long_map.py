"""A map of more queries and keys than a screen has room for, in fewer cells."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float, Int

from attnviz.figures.heatmap import heatmap
from attnviz.figures.sentences import GIVES, visible

NOTHING_HERE = "Nothing here may be looked at."


def long_map(
    weights: Float[np.ndarray, "height width"],
    query: Int[np.ndarray, "height width"],
    key: Int[np.ndarray, "height width"],
    rows: Int[np.ndarray, " height"],
    columns: Int[np.ndarray, " width"],
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    *,
    largest: float = 1.0,
    says: str = GIVES,
    zoom: str = "",
) -> go.Figure:
    """A map as `attnviz.long_maps.reduced` gives it: each cell says its largest weight, and between which tokens.

    `query` and `key` are the positions where that stands, `rows` and `columns` the first position of each cell, and
    the tokens those of all positions.
    """
    figure = heatmap(
        weights,
        [str(i) for i in rows],
        [str(i) for i in columns],
        largest=largest,
        says=says,
        masked=NOTHING_HERE,
        nothing=NOTHING_HERE,
        zoom=zoom,
        fan=False,
    )
    named = {
        side: [f"{visible(token)} ({i})" for i, token in enumerate(tokens)]
        for side, tokens in (("queries", query_tokens), ("keys", key_tokens))
    }
    figure.layout.meta |= {"at": {**named, "query": query.astype("f8"), "key": key.astype("f8")}}
    return figure
