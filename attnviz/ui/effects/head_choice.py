"""The choice of a head: by a menu, by a click on a grid, or by its name in a table."""

from collections.abc import Sequence
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz.effects.ablation import Head
from attnviz.figures import Chart
from attnviz.figures.chart_spec import MosaicSpec
from attnviz.page import html
from attnviz.state.effects import EffectsState
from attnviz.state.fields import Field
from attnviz.ui.chart import chart
from attnviz.ui.field_widgets import draw, set_field_value
from attnviz.ui.link_state import own_address
from attnviz.views.effect_grid import head_at

GRID_ROW, MOST_HEIGHT = 21, 900  # pixels


def draw_fields(
    state: EffectsState, fields: Sequence[Field[Any]], places: Sequence[DeltaGenerator] = ()
) -> EffectsState:
    """Draws fields side by side, and returns the state with their values."""
    places = places or st.columns(3, gap="small", vertical_alignment="bottom")
    for field, place in zip(fields, places, strict=False):
        with place:
            state = state.updated(**{field.name: draw(field, state)})
    return state


def show_grid(picture: Chart[MosaicSpec], key: str, state: EffectsState, *, clicks: bool = True) -> None:
    """Draws a grid with a row or a column for each layer, in which a click chooses a head, also while numbers of the
    grid are still being replaced."""
    spec = picture.spec

    def open_cell(row: int, column: int) -> None:
        if (head := head_at(spec, state.run.heads, row, column)) is not None:
            set_field_value(EffectsState.head, head, state)

    chart(
        picture, key, height=min(MOST_HEIGHT, 120 + GRID_ROW * spec.rows), grows=False,
        cells=(state.source, spec.size), on_click=open_cell if clicks else None,
    )  # fmt: skip


def head_link(state: EffectsState, name: str, head: Head | None) -> html.Markup:
    """Returns the name of a head as a link that chooses it; the name of an MLP as it is."""
    if head is None:
        return html.Markup.escape(name)
    parameter = EffectsState.head.parameter
    chosen = EffectsState.head.name_of(state, head)
    return html.anchor(name, own_address("effects", (parameter,), ((parameter, chosen),)))
