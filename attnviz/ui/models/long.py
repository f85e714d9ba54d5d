"""One head of a long text: a map in as many cells as a screen has room for."""

from dataclasses import dataclass, field
from html import escape

import numpy as np
import plotly.graph_objects as go
import streamlit as st
import torch
from jaxtyping import Float

from attnviz.figures import long_map, sentence
from attnviz.figures.sentences import number, visible
from attnviz.inputs import Inputs
from attnviz.long_maps import Reduced, reduced
from attnviz.measures import head_map, strongest
from attnviz.ui import cache, heads, pinned
from attnviz.ui.chart import chart
from attnviz.ui.models import products
from attnviz.ui.view import View, tokens_stamp

CELLS = 320  # along each side


Part = tuple[int, int | None]  # the first position, and the one after the last
WHOLE: Part = (0, None)


@dataclass(frozen=True, eq=False)
class LongView(View):
    """A view whose weights are the largest in each cell of the part that is looked at."""

    rows: Part = WHOLE
    columns: Part = WHOLE
    found: Reduced = field(init=False)

    def _weights(self) -> Float[np.ndarray, "queries keys"]:
        if not isinstance(self.head, int):
            raise ValueError("Of so long a text one head is drawn at a time. Choose one in the menu.")
        inputs, mechanism, head = self.layers[self.layer].inputs, self.mechanisms[self.layer], self.head
        found = cache.once(
            lambda: reduced(
                inputs,
                mechanism,
                head,
                CELLS,
                CELLS,
                rows=slice(*self.rows),
                keys=slice(*self.columns),
                special=self.special,
            ),
            *("long map", self.source, self.layer, head, mechanism, self.special, self.rows, self.columns),
        )
        object.__setattr__(self, "found", found)
        return found.weights.numpy()

    def of_row(self, row: int) -> Float[np.ndarray, " keys"]:
        """The exact weights of one query, NaN where not allowed."""
        inputs, mechanism, head = self.layers[self.layer].inputs, self.mechanisms[self.layer], self.head
        assert isinstance(head, int)
        position = self.queries[row]
        weights: Float[np.ndarray, "queries keys"] = cache.once(
            lambda: head_map(inputs, mechanism, head, self.special, slice(position, position + 1)).numpy(),
            *("long row", self.source, self.layer, head, mechanism, self.special, position),
        )
        return weights[0]


def part(inputs: Inputs) -> tuple[Part, Part]:
    """The rows and columns that are looked at, from two sliders."""
    with st.sidebar:
        return _from_to("Queries", inputs.queries), _from_to("Keys", inputs.keys)


def _from_to(name: str, count: int) -> Part:
    first, last = st.slider(name, 0, count - 1, (0, count - 1), key=f"part-of-{name.lower()}", bind="query-params")
    return first, last + 1


def draw(view: LongView) -> go.Figure:
    """Draws the map; a click on a cell pins the query and chooses the key of its largest weight."""
    inputs, found = view.layers[view.layer].inputs, view.found
    rows, columns = _inside(view.queries, view.rows), _inside(view.keys, view.columns)
    height, width = view.weights.shape
    figure = long_map(
        view.weights,
        found.query.numpy(),
        found.key.numpy(),
        starts(rows, height),
        starts(columns, width),
        inputs.query_tokens,
        inputs.key_tokens,
        largest=view.largest,
        zoom=f"{tokens_stamp(inputs)} {view.rows} {view.columns}",
    )
    take = products.pick(view)

    def picked(row: int, column: int) -> None:
        if column < 0:  # the name of a row, which stands for several
            return
        query, key = int(found.query[row, column]), int(found.key[row, column])
        if query >= 0:
            take(view.queries.index(query), view.keys.index(key))

    chart(
        figure,
        "heatmap",
        label="Attention weights",
        name=f"attention {view.title}",
        description=f"{view.title}: {len(rows)} queries by {len(columns)} keys, in fewer cells.",
        height=heads.HEIGHT,
        hint="A cell has the largest weight of those it stands for. Click it to pin that query.",
        on_click=picked,
    )
    return figure


def _inside(positions: list[int], part: Part) -> list[int]:
    return [position for position in positions if position in range(positions[-1] + 1)[slice(*part)]]


def starts(positions: list[int], cells: int) -> np.ndarray:
    """The first position of each cell, as `reduced` shares them out."""
    return np.array([positions[i * len(positions) // cells] for i in range(cells)])


def pin(view: LongView) -> int | None:
    """The row that is pinned, and what its query looks at most."""
    menu, said = st.columns([0.32, 0.68], gap="medium")
    with menu:
        opening = view.source.opening.query
        row = pinned.menu(heads.query_names(view), view.queries.index(opening) if opening in view.queries else None)
    with said:
        best = [] if row is None else strongest(torch.from_numpy(view.of_row(row)))
        if row is not None and best:
            items = "".join(
                f"<li><bdi>{escape(visible(view.key_tokens[key]))}</bdi> ({view.keys[key]}) {number(weight)}</li>"
                for key, weight in best
            )
            first = sentence(view.query_tokens[row], view.key_tokens[best[0][0]], best[0][1], view.says)
            st.html(f"<p class='attnviz-said'>{escape(first)}</p><ol class='attnviz-strongest'>{items}</ol>")
    return row
