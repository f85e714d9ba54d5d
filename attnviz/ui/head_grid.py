"""The heads of layers as cells, colored by one number."""

from collections.abc import Sequence

import numpy as np
import streamlit as st
from jaxtyping import Float
from streamlit.delta_generator import DeltaGenerator

from attnviz import figures
from attnviz.figures.head_grid import MOST_NUMBERS
from attnviz.figures.layer_mosaic import LayerTiles
from attnviz.language import N_, _, option_name
from attnviz.state.selection import Selection
from attnviz.ui.chart import chart
from attnviz.ui.head_controls import open_head


def two_places(tiles: LayerTiles, left: float) -> list[DeltaGenerator]:
    """Returns the places of a picture with these tiles and of what stands beside it: in columns, of which the left one
    has this share of the width, or below each other where layers run from left to right."""
    return [st.container(), st.container()] if tiles.is_wide else st.columns([left, 1 - left], gap="medium")


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
    """Draws a row or a column of cells for each of the layers with these `indices`, with colors up to `largest`.

    A cell has a sentence, empty where the layer has no such head; a click opens the head, and the selected one is
    `framed`. With `numbers` the values are written in cells that have room for them, and a `titled` picture has its
    title above. Without a `height` the picture is as high as its rows need.
    """
    place = indices.index(selection.index) if framed and selection.index in indices else None
    tiles, ids = LayerTiles(*values.shape), [selection.layers[i].id for i in indices]
    is_numbered = tiles.is_wide and len({(one.stack, one.cross) for one in ids}) == 1
    picture = figures.head_grid(
        values,
        sentences,
        largest=largest,
        chosen=[(place, selection.head)] if place is not None and isinstance(selection.head, int) else [],
        layer_names=[one.number if is_numbered else option_name(str(one)) for one in ids],
    )
    if numbers and tiles.columns <= MOST_NUMBERS:
        picture.figure.update_traces(texttemplate="%{z:.2f}", textfont={"size": 11})

    def open_at(row: int, column: int) -> None:
        tile = picture.spec.head_at(row, column)
        if tile is not None and picture.spec.names[tile]:
            layer, head = tiles.place(tile)
            open_head(selection.layers, indices[layer], head)

    about = {"label": title, "description": f"{picture.about.description} {description}".strip(), "hint": _(hint)}
    chart(
        picture.with_about(**about), key, height=height or 140 + 28 * min(picture.spec.rows, 12),
        grows=height is not None, title=title if titled else "", on_click=open_at,
    )  # fmt: skip
