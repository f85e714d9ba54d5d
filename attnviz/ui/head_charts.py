"""The charts of a selection: the mosaic of its heads, and the map of the selected head with the pinned query."""

from collections.abc import Callable, Collection, Sequence
from functools import partial

import numpy as np
import plotly.graph_objects as go
import streamlit as st
import torch
from jaxtyping import Float
from streamlit.delta_generator import DeltaGenerator

from attnviz.analysis.head_maps import Aggregate, Special, empty_rows, hidden_mass, strongest_keys
from attnviz.figures import cell_sentence
from attnviz.figures.bands import frame
from attnviz.figures.layer_mosaic import layer_mosaic
from attnviz.figures.sentences import EMPTY_ROW
from attnviz.formatting import SPACE, number, numbered_tokens, visible
from attnviz.language import N_, _
from attnviz.mechanism import Mechanism
from attnviz.page import html
from attnviz.state.explore import ExploreState
from attnviz.state.selection import Selection
from attnviz.state.viewport import numbered_token
from attnviz.ui import head_grid, pinned_query, prediction_form, quantities, query_row, viewport_sliders
from attnviz.ui.chart import chart
from attnviz.ui.field_widgets import draw
from attnviz.ui.head_controls import open_head
from attnviz.ui.head_questions import offer_head_questions
from attnviz.ui.minimap import minimap
from attnviz.ui.why_links import WHY_THERE, cell_links, why_link, with_cell_links
from attnviz.views.explore import pinned_quantities
from attnviz.views.head_view import HeadView
from attnviz.views.selected_maps import HeadMap, row_weights, thumbnail_sample

HEIGHT = 470


def show(view: HeadView) -> tuple[go.Figure, HeadMap]:
    """Draws both charts, with what the pinned query looks at below them.

    Returns the figure of the map, and the map as it is drawn: without the row that is still to be predicted.
    """
    left, right = places(view.selection)
    below = st.container()
    with below:
        row, hidden = pin(view)
    offer_head_questions(view.selection)
    view = view.without_row(hidden)
    with right:  # first, so that it reaches the browser first
        figure = show_map(view, row)
    with left:
        show_mosaic(view.selection, view.thumbnails, view.mosaic_end)
    return figure, view.head_map


def places(selection: Selection) -> list[DeltaGenerator]:
    """Returns the places of the mosaic and of the map. Many heads in a row need more room: twelve fit beside a map that
    has its lines beside it on a laptop."""
    heads, tiles = selection.inputs.heads, selection.tiles
    return head_grid.two_places(tiles, 0.45 if heads > 16 else 0.38 if heads > 8 and tiles.layers > 1 else 0.32)


def show_map(view: HeadView, row: int | None, on_click: Callable[[int, int], None] | None = None) -> go.Figure:
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
    reading = _reading(head_map, row) if is_whole and row is not None else ""
    chart(
        picture.with_about(
            description=f"{picture.about.description} {reading}".strip(),
            hint=_("Point at a cell to read it, click to pin its query."),
        ),
        "heatmap", height=HEIGHT, pinned=row if is_whole else None,
        on_click=on_click if is_whole else click_cell, on_zoom=viewport_sliders.on_zoom(head_map),
    )  # fmt: skip
    return picture.figure


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
    indices = selection.mosaic_layers
    layers, heads = [selection.layers[i] for i in indices], selection.inputs.heads
    if framed is None:
        framed = [(selection.index, selection.head)] if isinstance(selection.head, int) else []
    on_click = on_click or (lambda index, head: open_head(selection.layers, index, head))
    count, sample = len(layers), thumbnail_sample(selection)
    if selection.is_long:
        thumbnails, largest = selection.cell_colors.scale.place(thumbnails, largest), 1.0
    # If all heads of a layer are framed, one frame goes around them, also around layers below each other.
    whole = {index for index in indices if count > 1 and heads > 1 and {(index, i) for i in range(heads)} <= {*framed}}
    picture = layer_mosaic(
        thumbnails.reshape(count, heads, *thumbnails.shape[1:]),
        [layer.id for layer in layers],
        largest=largest,
        chosen=[(indices.index(index), head) for index, head in framed if index in indices and index not in whole],
    )
    spec, tiles = picture.spec, selection.tiles
    for first, last in neighbors([place for place, index in enumerate(indices) if index in whole]):
        top, left = spec.corner(tiles.tile(first, 0))
        bottom, right = spec.corner(tiles.tile(last, heads - 1))
        picture.figure.add_shape(frame(left, right + spec.width - 1, top, bottom + spec.height - 1))
    hint, label, about = _(hint), _(label), _(about)
    part = minimap(selection, spec)
    if part:
        picture.figure.add_shape(part.frame())

    def click_tile(row: int, column: int) -> None:
        tile = spec.head_at(row, column)
        if part and tile == part.tile:
            part.move(row, column)
        elif tile is not None:
            layer, head = tiles.place(tile)
            on_click(indices[layer], head)

    hints = [hint] * bool(hint) + [_("The frame is the part in view.")] * bool(part)
    if sample:
        hints.append(_("Each row of its cells: {sample} queries.", sample=sample))
    description = f"{picture.about.description} {about}"
    chart(
        picture.with_about(label=label, description=description, hint=" ".join(hints)),
        key,
        height=height,
        on_click=click_tile,
    )


def neighbors(places: Sequence[int]) -> list[tuple[int, int]]:
    """Returns the first and last of each run of consecutive numbers."""
    first = [place for place in places if place - 1 not in places]
    last = [place for place in places if place + 1 not in places]
    return list(zip(first, last, strict=True))


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
            text += html.paragraphs(_notes(selection, head_map) or [""])
        if text:
            st.html(text)
    if not is_whole and row is not None:
        query_row.show(selection, head_map, row, row_weights(selection, head_map, row))
    if row is not None:
        published = partial(pinned_quantities, selection, head_map, row)
        quantities.publish(published, visible(head_map.inputs.query_tokens[selection.queries[row]]))
    return row, hidden


def _reading(head_map: HeadMap, row: int) -> str:
    """Returns the sentence of the largest weight of a row."""
    best = strongest_keys(torch.from_numpy(head_map.weights[row]), 1)
    token = head_map.query_tokens[row]
    if not best:
        return _(EMPTY_ROW, query=visible(token))
    return cell_sentence(token, head_map.key_tokens[best[0][0]], best[0][1], head_map.sentences.allowed)


def _strongest_keys(view: HeadView, row: int) -> html.Markup:
    """Returns the pinned query's strongest keys: the first as a sentence, all as a list."""
    selection, head_map = view.selection, view.head_map
    inputs, query = head_map.inputs, selection.queries[row]
    best = strongest_keys(row_weights(selection, head_map, row))
    query_name = numbered_token(inputs, inputs.query_tokens, query)
    if not best:
        return html.summary(_("{query_name} may look at nothing.", query_name=visible(query_name)))
    keys = [(numbered_token(inputs, inputs.key_tokens, selection.keys[key]), weight) for key, weight in best]
    sentence, links = cell_sentence(query_name, *keys[0], head_map.sentences.allowed), view.score_links
    why = [" ", why_link(links.link(query, selection.keys[best[0][0]]), _(WHY_THERE))] if links else []
    return html.summary(sentence, *why) + html.strongest((key, number(weight)) for key, weight in keys)


def _notes(selection: Selection, head_map: HeadMap) -> list[str]:
    """Returns notes on hidden special tokens and empty rows."""
    weights = torch.from_numpy(head_map.weights)
    inputs, mechanism = head_map.inputs, selection.layer.mechanism
    normalizer = mechanism.normalizer if isinstance(mechanism, Mechanism) else None
    notes: list[str] = [normalizer.row] if normalizer and normalizer.row else []
    if selection.special != Special.SHOWN and inputs.special_keys:
        hidden = _joined_tokens([inputs.key_tokens[i] for i in inputs.special_keys])
        if selection.special == Special.RESCALED and not (normalizer and normalizer.negative):
            notes.append(_("{hidden} are hidden, and each row is rescaled to the sum it had with them.", hidden=hidden))
        elif selection.head == Aggregate.MAXIMUM or not (normalizer and normalizer.adds_up):
            notes.append(_("{hidden} are hidden; the rows keep their weights.", hidden=hidden))
        else:
            share = number(hidden_mass(weights))
            notes.append(
                _(
                    "{hidden} are hidden; on average {share} of a query's attention is not shown.",
                    hidden=hidden,
                    share=share,
                )
            )
    if any(token != token.strip(" ") for token in (*head_map.query_tokens, *head_map.key_tokens)):
        notes.append(_("{space} is a space that is a part of its token.", space=SPACE))
    if empty := empty_rows(weights):
        few = _joined_tokens([head_map.query_tokens[row] for row in empty[:5]]) + (", …" if len(empty) > 5 else "")
        notes.append(
            _(
                "{count} of {queries} queries may look at no key shown: {few}.",
                count=len(empty),
                queries=len(weights),
                few=few,
            )
        )
    return notes


def _joined_tokens(tokens: Sequence[str]) -> str:
    return ", ".join(visible(token) for token in tokens)


def as_table(head_map: HeadMap) -> dict[str, np.ndarray | list[str]]:
    """Returns the weights of a whole map as columns of a table, one for each key."""
    queries = numbered_tokens(head_map.queries, head_map.query_tokens)
    keys = numbered_tokens(head_map.keys, head_map.key_tokens)
    return {"query": queries, **dict(zip(keys, head_map.weights.T, strict=True))}
