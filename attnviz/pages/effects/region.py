"""A region of an image in a link: rectangles of patches."""

import re
from collections.abc import Collection

from attnviz.base.formatting import grouped, quoted
from attnviz.base.language import value_error
from attnviz.effects.hidden_region import Rectangle

MOST_RECTANGLES = 100
RANGE = r"([0-9]{1,4})(?:-([0-9]{1,4}))?"
RECTANGLE = re.compile(rf"{RANGE}\.{RANGE}")
Region = tuple[Rectangle, ...]


def parse_region(text: str) -> Region:
    """Returns the rectangles of a region.

    Raises ValueError for another text, and for too many rectangles.

    Example:
        >>> parse_region("3-7.8-12,9.0")
        ((3, 7, 8, 12), (9, 9, 0, 0))
    """
    parts = text.split(",", MOST_RECTANGLES + 1) if text else []
    matches = [RECTANGLE.fullmatch(part) for part in parts]
    if len(parts) > MOST_RECTANGLES or None in matches:
        raise value_error(
            "A region is written as rows and columns, 3-7.8-12, and at most {most} such rectangles with commas between "
            "them; this is {text}.",
            most=grouped(MOST_RECTANGLES),
            text=quoted(text),
        )
    numbers = [match.groups() for match in matches if match]
    return tuple((int(top), int(end or top), int(left), int(right or left)) for top, end, left, right in numbers)


def format_region(region: Region) -> str:
    """Returns a region as a link has it."""
    return ",".join(f"{_range(top, bottom)}.{_range(left, right)}" for top, bottom, left, right in region)


def rectangles(patches: Collection[int], columns: int) -> Region:
    """Returns rectangles that are these patches together, counted row by row. Raises ValueError if there are too many.

    Example:
        >>> rectangles({0, 1, 3, 4, 5}, columns=3)
        ((0, 1, 0, 1), (1, 1, 2, 2))
    """
    left_over, region = set(patches), list[Rectangle]()
    while left_over:
        first = min(left_over)
        row, left = divmod(first, columns)
        right = left
        while right + 1 < columns and row * columns + right + 1 in left_over:
            right += 1
        bottom, width = row, right - left + 1
        while {*range(start := (bottom + 1) * columns + left, start + width)} <= left_over:
            bottom += 1
        region.append((row, bottom, left, right))
        left_over -= {r * columns + c for r in range(row, bottom + 1) for c in range(left, right + 1)}
    if len(region) > MOST_RECTANGLES:
        raise value_error(
            "A region has at most {most} rectangles. Mark larger pieces of the image.", most=grouped(MOST_RECTANGLES)
        )
    return tuple(region)


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"
