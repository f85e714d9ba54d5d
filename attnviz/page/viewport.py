"""The viewport: the part of a long map in view."""

from collections.abc import Sequence
from dataclasses import dataclass

from attnviz.inputs import MapAxes

MOST_CELLS = 1 << 20  # of a map that is sent whole: 4 MB to a browser
Span = tuple[int, int | None]  # the first position, and the one after the last; None is the end


@dataclass(frozen=True)
class Viewport:
    """The part of a long map in view, in positions."""

    queries: Span = (0, None)
    keys: Span = (0, None)

    def within(self, inputs: MapAxes) -> "Viewport":
        """Returns the part that these inputs have; the whole axis if they have none of it."""
        return Viewport(_within(self.queries, inputs.queries), _within(self.keys, inputs.keys))


WHOLE = Viewport()


def is_long(inputs: MapAxes) -> bool:
    """Returns whether a map of these inputs has too many cells to be sent to a browser."""
    return inputs.queries * inputs.keys > MOST_CELLS


def numbered_token(inputs: MapAxes, tokens: Sequence[str], position: int) -> str:
    """Returns a token, in long texts with its position."""
    return f"{tokens[position]} ({position})" if is_long(inputs) else tokens[position]


def _within(span: Span, count: int) -> Span:
    first, end = span
    end = count if end is None else min(end, count)
    return (0, None) if first >= end or (first, end) == (0, count) else (first, end)
