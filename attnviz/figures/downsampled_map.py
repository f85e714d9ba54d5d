"""A downsampled map, of more queries and keys than a screen has room for."""

from collections.abc import Sequence
from dataclasses import replace

from jaxtyping import Int
from torch import Tensor

from attnviz.analysis.downsampling import Downsampled
from attnviz.figures.chart_spec import Chart, DownsampledSpec, HeatmapSpec
from attnviz.figures.heatmap import heatmap
from attnviz.figures.maps import as_array
from attnviz.figures.sentences import GIVES, CellSentences
from attnviz.formatting import visible

MASKED = "Nothing here may be looked at."


def downsampled_map(
    downsampled: Downsampled,
    query_tokens: Sequence[str] | None = None,
    key_tokens: Sequence[str] | None = None,
    *,
    largest: float = 1.0,
    allowed: str = GIVES,
    zoom_key: str = "",
    link: str = "",
    viewport: bool = False,
) -> Chart[HeatmapSpec]:
    """Draws a downsampled map: a cell's sentence names its largest weight and the two tokens that have it.

    The tokens are those of all positions, by default numbers. An axis has tokens where each row or column is one
    position, and numbers of positions where it is several. `allowed` is the sentence of a cell that is not masked. A
    map that is a `viewport` is a part of a larger one, to which the chart can go back.
    """
    query_tokens = query_tokens or _numbers(downsampled.queries)
    key_tokens = key_tokens or _numbers(downsampled.keys)
    chart = heatmap(
        downsampled.maximum,
        *cell_names(downsampled, query_tokens, key_tokens),
        largest=largest,
        sentences=CellSentences(allowed, MASKED, MASKED),
        zoom_key=zoom_key,
        link=link,
        fan=False,
    )
    query_names, key_names = (
        tuple(f"{visible(token)} ({i})" for i, token in enumerate(tokens)) for tokens in (query_tokens, key_tokens)
    )
    cells = DownsampledSpec(query_names, key_names, as_array(downsampled.query), as_array(downsampled.key), viewport)
    return Chart(chart.figure, replace(chart.spec, downsampled=cells))


def cell_names(
    downsampled: Downsampled, query_tokens: Sequence[str], key_tokens: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Returns the names of rows and columns: their tokens, or the first position where one stands for several."""
    rows, columns = downsampled.row_edges[:-1].tolist(), downsampled.column_edges[:-1].tolist()
    return (
        [query_tokens[i] if len(rows) == len(downsampled.queries) else str(i) for i in rows],
        [key_tokens[i] if len(columns) == len(downsampled.keys) else str(i) for i in columns],
    )


def _numbers(positions: Int[Tensor, " n"]) -> list[str]:
    return [str(i) for i in range(int(positions.max()) + 1)]
