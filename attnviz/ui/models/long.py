"""A head of a long text: the part in view, in as many cells as a screen has room for."""

from dataclasses import dataclass, field
from functools import partial
from html import escape

import numpy as np
import plotly.graph_objects as go
import streamlit as st
import torch
from jaxtyping import Float

from attnviz.analysis.head_maps import head_map, strongest_keys
from attnviz.figures import sentence
from attnviz.figures.downsampled_map import cell_names
from attnviz.formatting import number, visible
from attnviz.ui import cache, head_charts, pinned_query
from attnviz.ui.chart import chart
from attnviz.ui.models import products
from attnviz.ui.models.viewport import ALL, OnScreen, Part, on_screen, told
from attnviz.ui.view import View

NOTE = "The part in view, in the cells that are drawn: each has the largest weight of those it stands for."


@dataclass(frozen=True, eq=False)
class LongView(View):
    """A view whose weights are the largest in each cell of the part that is looked at."""

    part: Part = ALL
    screen: OnScreen = field(init=False)

    def _weights(self) -> Float[np.ndarray, "queries keys"]:
        inputs, mechanism = self.layers[self.layer].inputs, self.mechanisms[self.layer]
        of = partial(head_map, inputs, mechanism, self.head, self.special)
        found = on_screen(of, inputs, self.special, self.part, self.source, self.layer, mechanism, self.head)
        object.__setattr__(self, "screen", found)
        return found.weights

    @property
    def names(self) -> tuple[list[str], list[str]]:
        inputs, found = self.screen.inputs, self.screen.reduced
        assert found is not None
        return cell_names(found, inputs.query_tokens, inputs.key_tokens)

    def of_row(self, row: int) -> Float[np.ndarray, " keys"]:
        """The exact weights of one query, NaN where not allowed."""
        inputs, mechanism, head = self.layers[self.layer].inputs, self.mechanisms[self.layer], self.head
        only = slice(self.queries[row], self.queries[row] + 1)
        weights: Float[np.ndarray, "queries keys"] = cache.once(
            lambda: head_map(inputs, mechanism, head, self.special, only).numpy(),
            *("long row", self.source, self.layer, head, mechanism, self.special, only),
        )
        return weights[0]


def draw(view: LongView) -> go.Figure:
    """Draws the map; a click on a cell pins the query and chooses the key of its largest weight."""
    end = view.colors.end([view.weights])  # among thousands of keys most weights are small
    picture = view.screen.figure(largest=end, says=view.says)
    take = products.pick(view)

    def picked(row: int, column: int) -> None:
        place = view.screen.at(row, column) if column >= 0 else None  # the name of a row stands for several
        if place:
            take(view.queries.index(place[0]), view.keys.index(place[1]))

    chart(
        picture,
        "heatmap",
        label="Attention weights",
        name=f"attention {view.title}",
        description=f"{view.title}: {view.screen.size}.",
        height=head_charts.HEIGHT,
        hint="Each cell: its largest weight. Click to pin.",
        on_click=picked,
        on_view=view.screen.on_view,
    )
    return picture.figure


def pin(view: LongView) -> int | None:
    """The row that is pinned, and what its query looks at most."""
    menu, said = st.columns([0.32, 0.68], gap="medium")
    with menu:
        opening = view.source.opening.query
        row = pinned_query.menu(
            head_charts.query_names(view), view.queries.index(opening) if opening in view.queries else None
        )
    with said:
        best = [] if row is None else strongest_keys(torch.from_numpy(view.of_row(row)))
        if row is not None and best:
            items = "".join(
                f"<li><bdi>{escape(visible(view.key_tokens[key]))}</bdi> ({view.keys[key]}) {number(weight)}</li>"
                for key, weight in best
            )
            inputs, key = view.screen.inputs, view.keys[best[0][0]]
            tokens = told(inputs, inputs.query_tokens, view.queries[row]), told(inputs, inputs.key_tokens, key)
            first = sentence(*tokens, best[0][1], view.says)
            st.html(f"<p class='attnviz-summary'>{escape(first)}</p><ol class='attnviz-strongest'>{items}</ol>")
    return row
