"""The charts of a selection: the mosaic of its heads, and the map of the selected head with the pinned query."""

from collections.abc import Callable, Collection
from functools import partial

import numpy as np
import streamlit as st
from jaxtyping import Float
from streamlit.delta_generator import DeltaGenerator

from attnviz.figures import Chart
from attnviz.figures.chart_spec import HeatmapSpec
from attnviz.formatting import visible
from attnviz.language import N_, _
from attnviz.page import html
from attnviz.page.block_html import block_html
from attnviz.page.blocks import Anchor
from attnviz.state.explore import ExploreState
from attnviz.state.selection import Selection
from attnviz.ui import head_grid, pinned_query, prediction_form, presentation, quantities, query_row, viewport_sliders
from attnviz.ui.chart import chart
from attnviz.ui.field_widgets import draw
from attnviz.ui.head_controls import open_head
from attnviz.ui.why_links import cell_links, with_cell_links
from attnviz.views.explore import map_reading, notes, pinned_quantities, strongest_blocks
from attnviz.views.head_mosaic import head_mosaic, head_of_tile, moved_part
from attnviz.views.head_view import HeadView
from attnviz.views.selected_maps import row_weights

HEIGHT = 470


def places(selection: Selection) -> list[DeltaGenerator]:
    """Returns the places of the mosaic and of the map. Many heads in a row need more room: twelve fit beside a map that
    has its lines beside it on a laptop."""
    heads, tiles = selection.inputs.heads, selection.tiles
    return head_grid.two_places(tiles, 0.45 if heads > 16 else 0.38 if heads > 8 and tiles.layers > 1 else 0.32)


def show_map(view: HeadView, row: int | None, on_click: Callable[[int, int], None] | None = None) -> Chart[HeatmapSpec]:
    """Draws the map of the selected head with its pinned row. `on_click` is called with the row and column of the
    shown queries and keys; by default a click pins the query."""
    selection, head_map, is_whole = view.selection, view.head_map, view.is_whole
    on_click = on_click or pinned_query.toggler(selection)

    def click_cell(cell_row: int, column: int) -> None:
        place = head_map.position_at(cell_row, column) if column >= 0 else None  # the name of a row is of several
        if place:
            on_click(selection.queries.index(place[0]), selection.keys.index(place[1]))

    picture = head_map.chart(largest=view.map_end, fan=is_whole)
    if is_whole:
        picture = with_cell_links(picture, cell_links(view.score_links, head_map.queries, head_map.keys))
    reading = map_reading(head_map, row) if is_whole and row is not None else ""
    chart(
        picture.with_about(
            description=f"{picture.about.description} {reading}".strip(),
            hint=_("Point at a cell to read it, click to pin its query."),
        ),
        "heatmap", height=HEIGHT, pinned=row if is_whole else None,
        on_click=on_click if is_whole else click_cell, on_zoom=viewport_sliders.on_zoom(head_map),
    )  # fmt: skip
    return picture


def show_mosaic(
    selection: Selection,
    thumbnails: Float[np.ndarray, "heads height width"],
    largest: float,
    key: str = "heads",
    *,
    framed: Collection[tuple[int, int]] | None = None,
    height: int = HEIGHT,
    hint: str = N_("Click a head to open it."),
    label: str = N_("Mosaic"),
    about: str = N_("The head menu opens one."),
    on_click: Callable[[int, int], None] | None = None,
) -> None:
    """Draws the mosaic under `key`. The heads in `framed`, pairs of a layer's index and a head, are framed, by
    default the selected one. `on_click` is called with such a pair; by default it opens the head."""
    picture = head_mosaic(selection, thumbnails, largest, framed, _(hint))
    on_click = on_click or (lambda index, head: open_head(selection.layers, index, head))

    def click_tile(row: int, column: int) -> None:
        if part := moved_part(selection, picture.spec, row, column):
            viewport_sliders.move(*part)
        elif head := head_of_tile(selection, picture.spec, row, column):
            on_click(*head)

    description = f"{picture.about.description} {_(about)}"
    chart(picture.with_about(label=_(label), description=description), key, height=height, on_click=click_tile)


def pin(view: HeadView) -> tuple[int | None, int | None]:
    """Draws the menu of the pinned query, and what that query attends to, of a long map also as a curve. Returns the
    pinned row among the shown queries, and a row that is still to be predicted; one of them is None."""
    selection, head_map, is_whole = view.selection, view.head_map, view.is_whole
    menu, reading = st.columns([0.32, 0.68], gap="medium")
    with menu:
        row = pinned_query.menu(selection)
        predict = is_whole and draw(ExploreState.predict)
    with reading:
        hidden = None
        if predict and row is not None:
            query, weights = head_map.query_tokens[row], head_map.weights[row]
            if not prediction_form.predict("head", query, head_map.key_tokens, weights):
                row, hidden = None, row
        text = html.Markup() if row is None else _strongest_keys(view, row)
        if predict and row is None and hidden is None:
            text = html.element("p", _("Pin a query to predict where it looks."))
        if is_whole:
            text += html.paragraphs(notes(selection, head_map) or [""])
        if text:
            st.html(text)
    if not is_whole and row is not None:
        query_row.show(selection, head_map, row, row_weights(selection, head_map, row))
    if row is not None:
        published = partial(pinned_quantities, selection, head_map, row)
        quantities.publish(published, visible(head_map.inputs.query_tokens[selection.queries[row]]))
    return row, hidden


def _strongest_keys(view: HeadView, row: int) -> html.Markup:
    """Returns the pinned query's strongest keys: the first as a sentence, all as a list."""

    def address(anchor: Anchor) -> str:
        return presentation.page_link(anchor.page, anchor.link)

    return html.join(block_html(block, address) or "" for block in strongest_blocks(view, row))
