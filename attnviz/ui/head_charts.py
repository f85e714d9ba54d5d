"""The charts of a selection: the mosaic of its heads, and the map of the selected head with the pinned query."""

from collections.abc import Callable, Collection, Sequence
from functools import partial

import numpy as np
import plotly.graph_objects as go
import streamlit as st
import torch
from jaxtyping import Float

from attnviz.analysis.head_maps import Aggregate, Special, empty_rows, hidden_mass, strongest_keys
from attnviz.figures import cell_sentence
from attnviz.figures.layer_mosaic import layer_mosaic, tile_place
from attnviz.figures.mosaic import ACCENT
from attnviz.figures.sentences import CellSentences
from attnviz.formatting import SPACE, number, visible
from attnviz.language import N_, _
from attnviz.lessons.checks import row_quantities
from attnviz.ui import html, pinned_query, prediction, quantities, query_row
from attnviz.ui.chart import chart
from attnviz.ui.head_controls import open_head
from attnviz.ui.head_map import (
    HeadMap,
    hide_row,
    hide_thumbnail_rows,
    selected_map,
    selected_thumbnails,
    thumbnail_sample,
)
from attnviz.ui.head_questions import offer_head_questions
from attnviz.ui.minimap import minimap
from attnviz.ui.selection import Selection
from attnviz.ui.viewport import numbered_token

HEIGHT = 470
HIDDEN = N_("{query} may not look at {key}, or it is still to be predicted.")
HIDDEN_ROW = N_("What {query} looks at is still to be predicted, or there is nothing.")


def show(selection: Selection) -> tuple[go.Figure, HeadMap]:
    """Draws both charts, with what the pinned query looks at below them.

    Returns the figure of the map, and the map as it is drawn: without the row that is still to be predicted.
    """
    left, right = st.columns([0.32, 0.68], gap="medium")
    below = st.container()
    head_map, thumbnails = selected_map(selection), selected_thumbnails(selection)
    with below:
        row, hidden = pin(selection, head_map)
    if row is not None:
        tokens = [head_map.inputs.key_tokens[i] for i in selection.keys]  # of all, where a part is in view
        published = partial(row_quantities, tokens, row_weights(selection, head_map, row).numpy())
        quantities.publish(published, visible(head_map.inputs.query_tokens[selection.queries[row]]))
    offer_head_questions(selection)
    head_map, thumbnails = without_row(head_map, thumbnails, hidden)
    is_whole = head_map.downsampled is None  # the cells of others show something else than the mosaic does
    end = selection.colors.end([head_map.weights if is_whole else thumbnails], [thumbnails])
    with right:  # first, so that the browser has it first
        figure = show_map(selection, head_map, row, end if is_whole else selection.colors.end([head_map.weights]))
    with left:
        show_mosaic(selection, thumbnails, end)
    return figure, head_map


def without_row(
    head_map: HeadMap, thumbnails: Float[np.ndarray, "heads height width"], row: int | None
) -> tuple[HeadMap, Float[np.ndarray, "heads height width"]]:
    """Returns both without a row that is still to be predicted, so that it is not sent to the browser."""
    if row is None:
        return head_map, thumbnails
    sentences = CellSentences(head_map.sentences.allowed, HIDDEN, HIDDEN_ROW)
    return hide_row(head_map, row, sentences), hide_thumbnail_rows(thumbnails, len(head_map.queries), row)


def show_map(
    selection: Selection,
    head_map: HeadMap,
    row: int | None,
    largest: float,
    on_click: Callable[[int, int], None] | None = None,
) -> go.Figure:
    """Draws the map of the selected head with its pinned row. `on_click` is called with the row and column of the
    shown queries and keys; by default a click pins the query."""
    names = selection.query_names
    on_click = on_click or (lambda clicked, _: pinned_query.toggle(names, clicked))
    is_whole = head_map.downsampled is None

    def click_cell(cell_row: int, column: int) -> None:
        place = head_map.position_at(cell_row, column) if column >= 0 else None  # the name of a row is of several
        if place:
            on_click(selection.queries.index(place[0]), selection.keys.index(place[1]))

    picture = head_map.chart(largest=largest, fan=is_whole)
    chart(
        picture,
        "heatmap",
        label=_("Attention weights"),
        name=f"attention {head_map.title}",
        description=_description(head_map, row) if is_whole else f"{head_map.title}: {head_map.size}.",
        height=HEIGHT,
        pinned=row if is_whole else None,
        hint=_("Point at a cell to read it, click to pin its query."),
        on_click=on_click if is_whole else click_cell,
        on_view=head_map.on_view,
    )
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
    about: str = N_("the head menu opens one"),
    on_click: Callable[[int, int], None] | None = None,
) -> None:
    """Draws the mosaic under `key`. The heads in `framed`, pairs of a layer's index and a head, are framed, by
    default the selected one. `on_click` is called with such a pair; by default it opens the head."""
    indices = selection.mosaic_layers
    layers, heads = [selection.layers[i] for i in indices], selection.layer.inputs.heads
    if framed is None:
        framed = [(selection.index, selection.head)] if isinstance(selection.head, int) else []
    on_click = on_click or (lambda index, head: open_head(selection.layers, index, head))
    count, sample = len(layers), thumbnail_sample(selection)
    if selection.is_long:
        thumbnails, largest = selection.cell_colors.scale.place(thumbnails, largest), 1.0
    # A layer of which all heads are framed has one frame around them, and so have layers side by side.
    whole = {index for index in indices if count > 1 and heads > 1 and {(index, i) for i in range(heads)} <= {*framed}}
    picture = layer_mosaic(
        thumbnails.reshape(count, heads, *thumbnails.shape[1:]),
        [layer.id for layer in layers],
        largest=largest,
        chosen=[(indices.index(index), head) for index, head in framed if index in indices and index not in whole],
    )
    spec = picture.spec
    for first, last in neighbors([column for column, index in enumerate(indices) if index in whole]):
        picture.figure.add_shape(
            type="rect", line={"color": ACCENT, "width": 3},
            x0=first * spec.tile_width - 0.5, x1=last * spec.tile_width + spec.width - 0.5,
            y0=spec.tile_height - spec.height - 0.5, y1=heads * spec.tile_height - 0.5,
        )  # fmt: skip

    hint, label, about = _(hint), _(label), _(about)
    part = minimap(selection, spec)
    if part:
        picture.figure.add_shape(part.frame())

    def click_tile(row: int, column: int) -> None:
        tile = spec.head_at(row, column)
        if part and tile == part.tile:
            part.move(row, column)
        elif tile is not None:
            layer, head = tile_place(tile, count)
            on_click(indices[layer], head)

    if part:
        hint = _("{hint} The frame is the part in view.").format(hint=hint).strip()
    if sample:
        hint = _("{hint} Each row of its cells: {sample} queries.").format(hint=hint, sample=sample)
    chart(
        picture,
        key,
        label=label,
        name="attention heads",
        description=_("{count} small maps of attention weights, one for each head; {about}.").format(
            count=len(thumbnails), about=about
        ),
        height=height,
        hint=hint,
        on_click=click_tile,
    )


def neighbors(places: Sequence[int]) -> list[tuple[int, int]]:
    """Returns the first and last of each run of consecutive numbers."""
    first = [place for place in places if place - 1 not in places]
    last = [place for place in places if place + 1 not in places]
    return list(zip(first, last, strict=True))


def pin(selection: Selection, head_map: HeadMap) -> tuple[int | None, int | None]:
    """Draws the menu of the pinned query, and what that query attends to, of a long map also as a curve. Returns the
    pinned row among the shown queries, and a row that is still to be predicted; one of them is None."""
    is_whole = head_map.downsampled is None
    menu, reading = st.columns([0.32, 0.68], gap="medium")
    with menu:
        row = pinned_query.menu(selection.query_names, selection.first_row)
        predict = is_whole and st.toggle(
            _("Predict"),
            key="predict",
            bind="query-params",
            help=_("Predict where the pinned query looks before you see it."),
        )
    with reading:
        hidden = None
        if predict and row is not None and not _is_revealed(head_map, row):
            row, hidden = None, row
        text = html.Markup() if row is None else _strongest_keys(selection, head_map, row)
        if predict and row is None and hidden is None:
            text = html.element("p", _("Pin a query to predict where it looks."))
        if is_whole:
            text += html.paragraphs(_notes(selection, head_map) or [""])
        if text:
            st.html(text)
    if not is_whole and row is not None:
        query_row.show(selection, head_map, row, row_weights(selection, head_map, row))
    return row, hidden


def _is_revealed(head_map: HeadMap, row: int) -> bool:
    return prediction.predict("head", head_map.query_tokens[row], head_map.key_tokens, head_map.weights[row])


def _description(head_map: HeadMap, row: int | None) -> str:
    text = _("{title}: {size}. The arrow keys move from cell to cell, Enter pins a query.").format(
        title=head_map.title, size=head_map.size
    )
    if row is None:
        return text
    best = strongest_keys(torch.from_numpy(head_map.weights[row]), 1)
    token = head_map.query_tokens[row]
    if not best:
        return _("{text} {token} may look at nothing.").format(text=text, token=visible(token))
    return f"{text} {cell_sentence(token, head_map.key_tokens[best[0][0]], best[0][1], head_map.sentences.allowed)}"


def _strongest_keys(selection: Selection, head_map: HeadMap, row: int) -> html.Markup:
    """Returns the pinned query's strongest keys: the first as a sentence, all as a list."""
    inputs, query = head_map.inputs, selection.queries[row]
    best = strongest_keys(row_weights(selection, head_map, row))
    query_name = numbered_token(inputs, inputs.query_tokens, query)
    if not best:
        return html.summary(_("{query_name} may look at nothing.").format(query_name=visible(query_name)))
    keys = [(numbered_token(inputs, inputs.key_tokens, selection.keys[key]), weight) for key, weight in best]
    return html.summary(cell_sentence(query_name, *keys[0], head_map.sentences.allowed)) + html.strongest(
        (key, number(weight)) for key, weight in keys
    )


def row_weights(selection: Selection, head_map: HeadMap, row: int) -> Float[torch.Tensor, " keys"]:
    """Returns the exact weights of one of the shown queries at all keys that are shown, NaN where not allowed."""
    if head_map.downsampled is None:
        return torch.from_numpy(head_map.weights[row])
    return head_map.exact_rows([selection.queries[row]])[0]


def _notes(selection: Selection, head_map: HeadMap) -> list[str]:
    """Returns notes on hidden special tokens and empty rows."""
    weights = torch.from_numpy(head_map.weights)
    inputs, normalizer = head_map.inputs, selection.mechanism.normalizer
    notes: list[str] = [] if normalizer.adds_up else [normalizer.row]
    if selection.special != Special.SHOWN and inputs.special_keys:
        hidden = _joined_tokens([inputs.key_tokens[i] for i in inputs.special_keys])
        if selection.special == Special.RESCALED and not normalizer.negative:
            notes.append(
                _("{hidden} are hidden, and each row is rescaled to the sum it had with them.").format(hidden=hidden)
            )
        elif selection.head == Aggregate.MAXIMUM or not normalizer.adds_up:
            notes.append(_("{hidden} are hidden; the rows keep their weights.").format(hidden=hidden))
        else:
            share = number(hidden_mass(weights))
            notes.append(
                _("{hidden} are hidden; on average {share} of a query's attention is not in the picture.").format(
                    hidden=hidden, share=share
                )
            )
    if any(token != token.strip(" ") for token in (*head_map.query_tokens, *head_map.key_tokens)):
        notes.append(_("{space} is a space that is a part of its token.").format(space=SPACE))
    if empty := empty_rows(weights):
        few = _joined_tokens([head_map.query_tokens[row] for row in empty[:5]]) + (", …" if len(empty) > 5 else "")
        notes.append(
            _("{count} of {count_2} queries may look at no key shown: {few}.").format(
                count=len(empty), count_2=len(weights), few=few
            )
        )
    return notes


def _joined_tokens(tokens: Sequence[str]) -> str:
    return ", ".join(visible(token) for token in tokens)


def as_table(head_map: HeadMap) -> dict[str, np.ndarray | list[str]]:
    """Returns the weights of a whole map as columns of a table, one for each key."""
    queries = pinned_query.numbered(head_map.queries, head_map.query_tokens)
    keys = pinned_query.numbered(head_map.keys, head_map.key_tokens)
    return {"query": queries, **dict(zip(keys, head_map.weights.T, strict=True))}
