"""The controls of what the colors of a long map show."""

from enum import StrEnum
from typing import TypeVar

import streamlit as st

from attnviz.figures.downsampled_map import CELL_COLORS, CellColors, Quantity, Scale
from attnviz.inputs import Inputs
from attnviz.language import N_, _
from attnviz.ui.menus import names_of
from attnviz.ui.viewport import is_long

ColorChoice = TypeVar("ColorChoice", bound=StrEnum)
HELP = {
    "Quantity": N_(
        "A cell stands for several queries and keys. **Mass**: how much of its queries' attention its "
        "keys get, so that a row of cells adds up to 1. **Largest weight**: of a query and a key. "
        "**Mean weight**: of the pairs that the mask allows."
    ),
    "Color scale": N_("A square root or a logarithm shows small numbers beside large ones."),
}


def choose_cell_colors(inputs: Inputs) -> CellColors:
    """Draws the menus, if the map is long, and returns what its colors show."""
    if not is_long(inputs):
        return CELL_COLORS
    with st.sidebar:
        return CellColors(
            _menu(N_("Quantity"), "quantity", Quantity, CELL_COLORS.quantity),
            _menu(N_("Color scale"), "scale", Scale, CELL_COLORS.scale),
        )


def _menu(label: str, key: str, choices: type[ColorChoice], default: ColorChoice) -> ColorChoice:
    names = [str(choice) for choice in choices]
    chosen = st.selectbox(
        _(label), names, names.index(default), key=key, bind="query-params", help=_(HELP[label]),
        format_func=names_of(key, names),
    )  # fmt: skip
    return choices(chosen)
