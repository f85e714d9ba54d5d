"""A map as a screen has room for it: whole, or of a long text the part in view, in fewer cells."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import streamlit as st
from jaxtyping import Float

from attnviz.analysis.downsampling import Reduced, pooled
from attnviz.analysis.head_maps import Map, Special, shown_positions
from attnviz.figures import Chart, downsampled_map, heatmap
from attnviz.figures.chart_spec import HeatmapSpec
from attnviz.figures.sentences import GIVES, CellSentences
from attnviz.inputs import Inputs
from attnviz.ui import cache
from attnviz.ui.chart import Cells
from attnviz.ui.view import tokens_stamp

MOST_CELLS = 1 << 20  # of a map that is sent whole: 4 MB to a browser
CELLS = 320  # of a long one, along each side
Span = tuple[int, int | None]  # the first position, and the one after the last
WHOLE: Span = (0, None)
SLIDERS = "part-of-queries", "part-of-keys"  # and in the link


@dataclass(frozen=True)
class Part:
    """What is in view of a long map."""

    rows: Span = WHOLE
    keys: Span = WHOLE


ALL = Part()


@dataclass(frozen=True, eq=False)
class OnScreen:
    """The cells of a map, and what they stand for."""

    inputs: Inputs
    queries: Sequence[int]  # the positions in view
    keys: Sequence[int]
    weights: Float[np.ndarray, "rows columns"]  # NaN where not allowed
    reduced: Reduced | None  # of a long text
    part: Part

    @property
    def tokens(self) -> tuple[list[str], list[str]]:
        """Those in view."""
        return [self.inputs.query_tokens[i] for i in self.queries], [self.inputs.key_tokens[i] for i in self.keys]

    @property
    def size(self) -> str:
        """How many tokens it is of, for those who cannot see it."""
        fewer = ", in fewer cells" if self.weights.size < len(self.queries) * len(self.keys) else ""
        return f"{len(self.queries)} queries by {len(self.keys)} keys{fewer}"

    def figure(self, *, largest: float, says: str = GIVES, link: str = "") -> Chart[HeatmapSpec]:
        """The picture of it; what a cell says is where its largest weight stands."""
        zoom = tokens_stamp(self.inputs)
        if self.reduced is None:
            return heatmap(
                self.weights, *self.tokens, largest=largest, sentences=CellSentences(says), zoom_key=zoom, link=link,
                fan=False,
            )  # fmt: skip
        return downsampled_map(
            self.reduced,
            self.inputs.query_tokens,
            self.inputs.key_tokens,
            largest=largest,
            allowed=says,
            zoom_key=f"{zoom} {self.part}",
            link=link,
            viewport=self.part != ALL,
        )

    def at(self, row: int, column: int) -> tuple[int, int] | None:
        """The positions of the query and the key that a cell says; None where nothing may be looked at."""
        if self.reduced is None:
            return self.queries[row], self.keys[column]
        query = int(self.reduced.query[row, column])
        return None if query < 0 else (query, int(self.reduced.key[row, column]))

    @property
    def on_view(self) -> Callable[[Cells | None], None] | None:
        """What a zoom into a long map does: its part in view is computed anew."""
        return None if self.reduced is None else self._look

    def _look(self, cells: Cells | None) -> None:
        assert self.reduced is not None
        spans = self.reduced.part(*cells) if cells else (slice(0, self.inputs.queries), slice(0, self.inputs.keys))
        for key, span in zip(SLIDERS, spans, strict=True):
            st.session_state[key] = span.start, span.stop - 1


def on_screen(of: Callable[[slice], Map], inputs: Inputs, special: Special, part: Part, *asked: object) -> OnScreen:
    """The map that `of` gives, a slice of its rows at a time; computed once for all who have `asked` the same.

    A part that these inputs do not have is not looked for. Raises ValueError, in words, where nothing is left to show.
    """
    if not is_long(inputs):
        queries = shown_positions(inputs.queries, inputs.special_queries, special)
        keys = shown_positions(inputs.keys, inputs.special_keys, special)
        weights = cache.once(lambda: of(slice(None)).numpy(), special, *asked)
        return OnScreen(inputs, queries, keys, weights, None, ALL)
    part = Part(_within(part.rows, inputs.queries), _within(part.keys, inputs.keys))
    rows, columns = slice(*part.rows), slice(*part.keys)
    found = cache.once(
        lambda: pooled(of, inputs, CELLS, CELLS, rows=rows, keys=columns, special=special),
        *("on screen", part, special, *asked),
    )
    return OnScreen(inputs, found.queries.tolist(), found.keys.tolist(), found.weights.numpy(), found, part)


def is_long(inputs: Inputs) -> bool:
    """Whether a map of these inputs has more cells than are sent to a browser."""
    return inputs.queries * inputs.keys > MOST_CELLS


def told(inputs: Inputs, tokens: Sequence[str], position: int) -> str:
    """A token, and in a long text, where others are like it, its position."""
    return f"{tokens[position]} ({position})" if is_long(inputs) else tokens[position]


def part(inputs: Inputs) -> Part:
    """The part that is in view, from two sliders, which follow a zoom into the map; without them where all of it is."""
    if not is_long(inputs):
        return ALL
    with st.sidebar:
        return Part(
            _from_to("Queries", inputs.queries, SLIDERS[0]),
            _from_to("Keys", inputs.keys, SLIDERS[1]),
        )


def _from_to(name: str, count: int, key: str) -> Span:
    first, last = sorted(st.slider(name, 0, count - 1, (0, count - 1), key=key, bind="query-params"))
    return first, last + 1


def _within(span: Span, count: int) -> Span:
    first, end = span
    end = count if end is None else min(end, count)
    return WHOLE if first >= end or (first, end) == (0, count) else (first, end)
