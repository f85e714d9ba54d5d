"""The charts of a selection: where the mosaic of its heads and the map of the selected one stand, and the mosaic."""

import numpy as np
import streamlit as st
from jaxtyping import Float
from streamlit.delta_generator import DeltaGenerator

from attnviz.language import _
from attnviz.state.selection import Selection
from attnviz.ui import viewport_sliders
from attnviz.ui.chart import chart
from attnviz.ui.head_controls import open_head
from attnviz.views.head_mosaic import head_mosaic, head_of_tile, moved_part

HEIGHT = 470


def places(selection: Selection) -> list[DeltaGenerator]:
    """Returns the places of the mosaic and of the map: beside each other, or below each other where layers run from
    left to right. Many heads in a row need more room: twelve fit beside a map that has its lines beside it on a
    laptop."""
    heads, tiles = selection.inputs.heads, selection.tiles
    left = 0.45 if heads > 16 else 0.38 if heads > 8 and tiles.layers > 1 else 0.32
    return [st.container(), st.container()] if tiles.is_wide else st.columns([left, 1 - left], gap="medium")


def show_mosaic(selection: Selection, thumbnails: Float[np.ndarray, "heads height width"], largest: float) -> None:
    """Draws the mosaic, in which the selected head is framed; a click opens another one."""
    picture = head_mosaic(selection, thumbnails, largest, hint=_("Click a head to open it."))

    def click_tile(row: int, column: int) -> None:
        if part := moved_part(selection, picture.spec, row, column):
            viewport_sliders.move(*part)
        elif head := head_of_tile(selection, picture.spec, row, column):
            open_head(selection.layers, *head)

    description = f"{picture.about.description} {_('The head menu opens one.')}"
    picture = picture.with_about(label=_("Mosaic"), description=description)
    chart(picture, "heads", height=HEIGHT, on_click=click_tile)
