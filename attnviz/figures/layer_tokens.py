"""A number and a word for each layer and token, the last layer at the top."""

from collections.abc import Sequence

import plotly.graph_objects as go
from jaxtyping import Float

from attnviz.base.formatting import visible
from attnviz.base.language import _
from attnviz.figures.chart_spec import About, Chart, MosaicSpec
from attnviz.figures.colorbar import colorbar
from attnviz.figures.maps import Array, as_array
from attnviz.figures.mosaic import tiled
from attnviz.figures.sentences import escaped, label
from attnviz.figures.themes import COLOR_AXES

GAP = 1  # pixels between two cells
LEAST_WIDTH = 58  # pixels of a cell, in which a word of LETTERS fits
LETTERS, LETTER_SIZE = 8, 11  # of a word, and their pixels


def layer_tokens(
    values: Float[Array, "layers tokens"],
    layers: Sequence[str],
    tokens: Sequence[str],
    words: Sequence[Sequence[str]],
    sentences: Sequence[Sequence[str]],
    *,
    largest: float = 1.0,
    chosen: tuple[int, int] | None = None,
) -> Chart[MosaicSpec]:
    """Draws values as colors from 0 to `largest`, with a word in each cell; the first layer is at the bottom.

    `words` and `sentences` are those of each layer and token. The `chosen` cell, a layer and a token, has a frame.
    `layer_at` returns the layer of a row of the picture, which scrolls where its words do not fit.

    Example:
        >>> import torch
        >>> words, sentences = [["the"], ["Mary"]], [["input: the"], ["0: Mary"]]
        >>> chart = layer_tokens(torch.tensor([[0.2], [0.9]]), ["input", "0"], ["to"], words, sentences)
        >>> chart.spec.names, chart.figure.data[0].text
        (('0: Mary', 'input: the'), (['Mary'], ['the']))
    """
    values = as_array(values)
    rows, columns = values.shape
    names = tuple(sentence for row in reversed(sentences) for sentence in row)
    spec = MosaicSpec(names, rows, columns, least_width=LEAST_WIDTH)
    texts = [[_cell_text(word) for word in row] for row in reversed(words)]
    text = {"text": texts, "texttemplate": "%{text}", "textfont": {"size": LETTER_SIZE}}
    colors, axis = values[::-1].astype("f4"), COLOR_AXES["weights"]
    cells = go.Heatmap(z=colors, coloraxis=axis, zsmooth=False, hoverinfo="none", xgap=GAP, ygap=GAP, **text)
    frames = [] if chosen is None else [(rows - 1 - chosen[0]) * columns + chosen[1]]
    column_ticks = {"tickvals": [*range(columns)], "ticktext": [label(token) for token in tokens]}
    row_ticks = {"tickvals": [*range(rows)], "ticktext": [escaped(name) for name in reversed(layers)]}
    figure = tiled(
        spec,
        cells,
        frames,
        margin={"l": 8, "r": 8, "t": 44, "b": 8},
        xaxis=column_ticks | {"automargin": True, "autotickangles": [0, 90]},
        yaxis=row_ticks | {"automargin": True, "title": {"text": _("layers"), "standoff": 4}},
        **{axis: {"cmin": 0, "cmax": largest, "colorbar": colorbar(0.0, largest)}},
    )
    about = About(
        label=_("Layers and tokens"),
        description=_("{rows} layers by {columns} tokens, a cell each.", rows=rows, columns=columns),
    )
    return Chart(figure, spec, about)


def layer_at(chart: Chart[MosaicSpec], row: int) -> int:
    """Returns the layer of a row of the picture."""
    return chart.spec.rows - 1 - row


def _cell_text(word: str) -> str:
    text = visible(word.removeprefix(" ") or word)
    return escaped(text if len(text) <= LETTERS else text[: LETTERS - 1] + "…")
