"""The heads of layers as cells, colored by one number."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from attnviz import figures
from attnviz.figures.head_grid import MOST_NUMBERS
from attnviz.language import N_, _, option_name
from attnviz.state.selection import Selection
from attnviz.ui.chart import chart
from attnviz.ui.head_controls import open_head


def show(
    selection: Selection,
    indices: Sequence[int],
    values: Float[np.ndarray, "layers heads"],
    sentences: Sequence[str],
    key: str,
    title: str,
    *,
    largest: float,
    description: str = "",
    hint: str = N_("Click a head to open it."),
    framed: bool = True,
    numbers: bool = False,
    height: int | None = None,
    titled: bool = False,
) -> None:
    """Draws a row of cells for each of the layers with these `indices`, with colors up to `largest`.

    A cell has a sentence, empty where the layer has no such head; a click opens the head, and the selected one is
    `framed`. With `numbers` the values are written in cells that have room for them, and a `titled` picture has its
    title above. Without a `height` the picture is as high as its rows need.
    """
    place = indices.index(selection.index) if framed and selection.index in indices else None
    picture = figures.head_grid(
        values,
        sentences,
        largest=largest,
        chosen=[(place, selection.head)] if place is not None and isinstance(selection.head, int) else [],
        row_names=[option_name(selection.layers[i].name) for i in indices],
    )
    if numbers and values.shape[1] <= MOST_NUMBERS:
        picture.figure.update_traces(texttemplate="%{z:.2f}", textfont={"size": 11})

    def open_at(row: int, column: int) -> None:
        cell = picture.spec.head_at(row, column)
        if cell is not None and sentences[cell]:
            layer, head = divmod(cell, values.shape[1])
            open_head(selection.layers, indices[layer], head)

    about = {"label": title, "description": f"{picture.about.description} {description}".strip(), "hint": _(hint)}
    chart(
        picture.with_about(**about), key, height=height or 140 + 28 * min(len(values), 12), grows=height is not None,
        title=title if titled else "", on_click=open_at,
    )  # fmt: skip
