"""The viewport of a long map, from two sliders that follow zooms of the map."""

from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st

from attnviz.inputs import Inputs
from attnviz.language import _
from attnviz.ui import bookmarks, token_finder

MOST_CELLS = 1 << 20  # of a map that is sent whole: 4 MB to a browser
CLOSE = 512  # positions of each axis in view around one of them
Span = tuple[int, int | None]  # the first position, and the one after the last; None is the end
SLIDERS = "part-of-queries", "part-of-keys"  # and in the link


@dataclass(frozen=True)
class Viewport:
    """The part of a long map in view, in positions."""

    queries: Span = (0, None)
    keys: Span = (0, None)

    def within(self, inputs: Inputs) -> "Viewport":
        """Returns the part that these inputs have; the whole axis if they have none of it."""
        return Viewport(_within(self.queries, inputs.queries), _within(self.keys, inputs.keys))


WHOLE = Viewport()


def is_long(inputs: Inputs) -> bool:
    """Returns whether a map of these inputs has too many cells to be sent to a browser."""
    return inputs.queries * inputs.keys > MOST_CELLS


def numbered_token(inputs: Inputs, tokens: Sequence[str], position: int) -> str:
    """Returns a token, in long texts with its position."""
    return f"{tokens[position]} ({position})" if is_long(inputs) else tokens[position]


def choose_viewport(inputs: Inputs) -> Viewport:
    """Draws the search, the sliders and the bookmarks, if the map is long, and returns the viewport."""
    if not is_long(inputs):
        return WHOLE

    def go_to(query: int | None, key: int | None) -> None:
        move(
            None if query is None else around(query, inputs.queries), None if key is None else around(key, inputs.keys)
        )

    with st.sidebar:
        token_finder.show(inputs, go_to)
        rows, keys = _slider(_("Queries"), inputs.queries, SLIDERS[0]), _slider(_("Keys"), inputs.keys, SLIDERS[1])
        bookmarks.show(inputs, rows, keys, move)
    return Viewport(*((first, last + 1) for first, last in (rows, keys)))


def move(queries: slice | None, keys: slice | None) -> None:
    """Sets the sliders to these positions; None leaves one as it is."""
    for key, part in zip(SLIDERS, (queries, keys), strict=True):
        if part is not None:
            st.session_state[key] = part.start, part.stop - 1


def around(position: int, count: int) -> slice:
    """Returns the CLOSE positions with this one in their middle, or nearest to it, of a text of `count`."""
    first = max(0, min(position - CLOSE // 2, count - CLOSE))
    return slice(first, min(first + CLOSE, count))


def _slider(label: str, count: int, key: str) -> tuple[int, int]:
    """Draws a slider, and returns the first and the last position."""
    first, last = sorted(st.slider(label, 0, count - 1, (0, count - 1), key=key, bind="query-params"))
    return first, last


def _within(span: Span, count: int) -> Span:
    first, end = span
    end = count if end is None else min(end, count)
    return (0, None) if first >= end or (first, end) == (0, count) else (first, end)
