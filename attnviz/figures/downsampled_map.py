"""A map of more queries and keys than a screen has room for, in fewer cells."""

from collections.abc import Sequence

import plotly.graph_objects as go

from attnviz.analysis.downsampling import Reduced
from attnviz.figures.heatmap import heatmap
from attnviz.figures.sentences import GIVES
from attnviz.formatting import visible

NOTHING_HERE = "Nothing here may be looked at."


def downsampled_map(
    found: Reduced,
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    *,
    largest: float = 1.0,
    says: str = GIVES,
    zoom: str = "",
    link: str = "",
    part: bool = False,
) -> go.Figure:
    """A downsampled map: each cell says its largest weight, and between which tokens.

    The tokens are those of all positions; axes name them where each row or column is one of them, and have positions
    where it stands for several. Of a map that is `part` of another a chart can ask for the whole.
    """
    figure = heatmap(
        found.weights.numpy(),
        *cell_names(found, query_tokens, key_tokens),
        largest=largest,
        says=says,
        masked=NOTHING_HERE,
        nothing=NOTHING_HERE,
        zoom=zoom,
        link=link,
        fan=False,
    )
    named = {
        side: [f"{visible(token)} ({i})" for i, token in enumerate(tokens)]
        for side, tokens in (("queries", query_tokens), ("keys", key_tokens))
    }
    stands = {"query": found.query.double().numpy(), "key": found.key.double().numpy()}
    figure.layout.meta |= {"at": {**named, **stands}, "part": part}
    return figure


def cell_names(found: Reduced, query_tokens: Sequence[str], key_tokens: Sequence[str]) -> tuple[list[str], list[str]]:
    """What rows and columns are called: by their token, or, where one stands for several, by the first position."""
    rows, columns = found.rows.tolist(), found.columns.tolist()
    return (
        [query_tokens[i] if len(rows) == len(found.queries) else str(i) for i in rows],
        [key_tokens[i] if len(columns) == len(found.keys) else str(i) for i in columns],
    )
