"""The two charts of a view: the mosaic of its heads, and the heatmap of the chosen one with its pinned query."""

import math
from collections.abc import Callable, Sequence
from copy import copy
from html import escape

import numpy as np
import plotly.graph_objects as go
import streamlit as st
import torch
from jaxtyping import Float

from attnviz.analysis.head_maps import Aggregate, Special, empty_rows, hidden_mass, strongest_keys
from attnviz.figures import heatmap, mosaic, sentence
from attnviz.figures.sentences import EMPTY_ROW, MASKED, CellSentences
from attnviz.formatting import number, visible
from attnviz.layer import LayerId
from attnviz.ui import pinned_query, prediction
from attnviz.ui.chart import chart
from attnviz.ui.head_controls import head_names
from attnviz.ui.view import View, tokens_stamp

HEIGHT = 470
MOST_NAMES = 16
GUESSED = "{query} may not look at {key}, or it is still to be guessed."
UNSAID = "What {query} looks at is still to be guessed, or there is nothing."


def show(view: View) -> tuple[go.Figure, View]:
    """Draws both charts, and what the pinned query looks at below them; gives what can be taken away: the heatmap,
    and the view without the row that is still to be guessed."""
    left, right = st.columns([0.32, 0.68], gap="medium")
    below = st.container()
    with below:
        row, secret = pin(view)
    seen = view if secret is None else without(view, secret)
    with left:
        small_maps(seen)
    with right:
        return large_map(seen, row, secret is not None), seen


def large_map(
    view: View, row: int | None, guessing: bool = False, picked: Callable[[int, int], None] | None = None
) -> go.Figure:
    """Draws the heatmap of the chosen head with its pinned row; a click on a cell pins its query, unless it is
    `picked` otherwise."""
    picture = heatmap(
        view.weights,
        view.query_tokens,
        view.key_tokens,
        largest=view.largest,
        sentences=CellSentences(view.says, GUESSED if guessing else MASKED, UNSAID if guessing else EMPTY_ROW),
        zoom_key=tokens_stamp(view.layers[view.layer].inputs),
    )
    chart(
        picture,
        "heatmap",
        label="Attention weights",
        name=f"attention {view.title}",
        description=_in_words(view, row),
        height=HEIGHT,
        pinned=row,
        hint="Point at a cell to read it, click to pin its query.",
        on_click=picked or (lambda clicked, _: pinned_query.toggle(query_names(view), clicked)),
    )
    return picture.figure


def without(view: View, row: int) -> View:
    """The view with nothing in a row, in the mosaic neither: what is still to be guessed is not sent."""
    seen = copy(view)
    weights = view.weights.copy()
    weights[row] = np.nan
    for name, array in {"weights": weights, "mosaic": row_hidden(view.mosaic, len(weights), row)}.items():
        object.__setattr__(seen, name, array)
    return seen


def row_hidden(
    maps: Float[np.ndarray, "heads height width"], queries: int, row: int
) -> Float[np.ndarray, "heads height width"]:
    """Small maps of so many queries without all that one of their rows went into, as torch's adaptive pooling shares
    rows out."""
    height = maps.shape[1]
    hidden = maps.copy()
    hidden[:, [i for i in range(height) if i * queries // height <= row < -(-(i + 1) * queries // height)]] = np.nan
    return hidden


def small_maps(view: View, key: str = "heads", framed: bool = True, height: int = HEIGHT) -> None:
    """Draws the mosaic under `key`; a click opens a head. The chosen one is framed, where this mosaic has it."""
    heads = head_names(view.heads)
    names = [view.layers[i].name for i in view.beside]
    columns = len(names) if view.every else max(1, round(math.sqrt(0.75 * len(heads))))
    # Layers side by side, heads below each other: the thumbnails come layer by layer.
    order = [layer * len(heads) + head for head in range(len(heads)) for layer in range(len(names))]
    shown = view.mosaic[order] if view.every else view.mosaic
    at = [view.head] if framed and isinstance(view.head, int) else []
    picture = mosaic(
        shown,
        columns=columns,
        names=[f"{names[i % len(names)]}, {heads[i // len(names)].lower()}" for i in range(len(order))]
        if view.every
        else heads,
        row_names=_few([str(i) for i in range(len(heads))]) if view.every else (),
        column_names=_few(numbers_of([view.layers[i].id for i in view.beside])) if view.every else (),
        chosen=[head * len(names) + view.beside.index(view.layer) if view.every else head for head in at],
        largest=view.largest,
    )

    def open_head(row: int, column: int) -> None:
        place = picture.spec.head_at(row, column)
        if place is None:
            return
        st.session_state["head"] = heads[place // len(names) if view.every else place]
        if view.every:
            st.session_state["layer"] = names[place % len(names)]

    chart(
        picture,
        key,
        label="Mosaic",
        name="attention heads",
        description=f"{len(shown)} small maps of attention weights, one for each head; the head menu opens one.",
        height=height,
        hint="Click to open" if height == HEIGHT else "",  # smaller ones stand side by side, without room for it
        on_click=open_head,
    )


def numbers_of(layers: Sequence[LayerId]) -> list[str]:
    """The numbers of layers, or their order where those do not tell them apart."""
    numbers = [layer.number for layer in layers]
    return numbers if len(set(numbers) - {""}) == len(layers) else [str(i) for i in range(len(layers))]


def _few(names: Sequence[str]) -> list[str]:
    """As many of the names as find room along a mosaic, with nothing in the place of the others."""
    step = -(-len(names) // MOST_NAMES)
    return [name if i % step == 0 else "" for i, name in enumerate(names)]


def pin(view: View) -> tuple[int | None, int | None]:
    """The row that is pinned, chosen by a click or from the menu, or the one that is still to be guessed; below it
    what its query looks at."""
    menu, said = st.columns([0.32, 0.68], gap="medium")
    with menu:
        opening = view.source.opening.query
        row = pinned_query.menu(query_names(view), view.queries.index(opening) if opening in view.queries else None)
        predict = st.toggle(
            "Predict", key="predict", bind="query-params", help="Guess where the pinned query looks before you see it."
        )
    with said:
        secret = None
        if predict and row is not None and not _guessed(view, row):
            row, secret = None, row
        looks = "" if row is None else _reading(view, row)
        if predict and row is None and secret is None:
            looks = "<p>Pin a query to guess where it looks.</p>"
        st.html(looks + _notes(view))
    return row, secret


def _guessed(view: View, row: int) -> bool:
    return prediction.ask("head", view.query_tokens[row], view.key_tokens, view.weights[row])


def query_names(view: View) -> list[str]:
    return pinned_query.numbered(view.queries, view.query_tokens)


def _in_words(view: View, row: int | None) -> str:
    queries, keys = view.weights.shape
    said = f"{view.title}: {queries} queries by {keys} keys. The arrow keys move from cell to cell, Enter pins a query."
    return said if row is None else f"{said} {_best(view, row)}"


def _best(view: View, row: int) -> str:
    best = strongest_keys(torch.from_numpy(view.weights[row]), 1)
    token = view.query_tokens[row]
    return (
        sentence(token, view.key_tokens[best[0][0]], best[0][1], view.says)
        if best
        else f"{visible(token)} may look at nothing."
    )


def _reading(view: View, row: int) -> str:
    items = "".join(
        f"<li><bdi>{escape(visible(view.key_tokens[key]))}</bdi> {number(weight)}</li>"
        for key, weight in strongest_keys(torch.from_numpy(view.weights[row]))
    )
    return f"<p class='attnviz-summary'>{escape(_best(view, row))}</p><ol class='attnviz-strongest'>{items}</ol>"


def _notes(view: View) -> str:
    """What a reader must know to read the numbers right."""
    weights = torch.from_numpy(view.weights)
    inputs, normalizer = view.layers[view.layer].inputs, view.mechanisms[view.layer].normalizer
    notes: list[str] = [] if normalizer.adds_up else [normalizer.row]
    if view.special != Special.SHOWN and inputs.special_keys:
        hidden = _listed([inputs.key_tokens[i] for i in inputs.special_keys])
        if view.special == Special.RESCALED and not normalizer.negative:
            notes.append(f"{hidden} are hidden, and each row is rescaled to the sum it had with them.")
        elif view.head == Aggregate.MAXIMUM or not normalizer.adds_up:
            notes.append(f"{hidden} are hidden; the rows keep their weights.")
        else:
            share = number(hidden_mass(weights))
            notes.append(f"{hidden} are hidden; on average {share} of a query's attention is not in the picture.")
    if empty := empty_rows(weights):
        few = _listed([view.query_tokens[row] for row in empty[:5]]) + (", …" if len(empty) > 5 else "")
        notes.append(f"{len(empty)} of {len(weights)} queries may look at no key shown: {few}.")
    return "".join(f"<p>{escape(note)}</p>" for note in notes) or "<p></p>"


def _listed(tokens: Sequence[str]) -> str:
    return ", ".join(visible(token) for token in tokens)


def as_table(view: View) -> dict[str, np.ndarray | list[str]]:
    """The weights as columns, for a table: one column for each key."""
    names = pinned_query.numbered(view.keys, view.key_tokens)
    return {"query": query_names(view), **dict(zip(names, view.weights.T, strict=True))}
