"""Edited numbers, and their text in a link."""

import re
from collections.abc import Mapping

from attnviz.base.language import value_error

LARGEST = 1000  # what a person may write in a cell; far from where a product of three would overflow

Edits = Mapping[str, Mapping[tuple[int, int], float]]  # {matrix: {(row, column): value}}


def format_edits(edits: Edits) -> str:
    """Returns edits as a short text for links.

    Example:
        >>> format_edits({"Q0": {(1, 2): 0.5}, "X": {(0, 3): -1.0}})
        'Q0.1.2_0.5~X.0.3_-1.0'
    """
    return "~".join(
        f"{name}.{row}.{column}_{value!r}" for name, cells in edits.items() for (row, column), value in cells.items()
    )


def parse_edits(text: str) -> dict[str, dict[tuple[int, int], float]]:
    """Returns the edits in a text made by `format_edits`. Raises ValueError for any other text.

    Example:
        >>> parse_edits("Q0.1.2_0.5")
        {'Q0': {(1, 2): 0.5}}
    """
    edits: dict[str, dict[tuple[int, int], float]] = {}
    for one in filter(None, text.split("~")):
        if not (match := re.fullmatch(r"([A-Za-z]+\d?)\.(\d\d?)\.(\d\d?)_(-?[\d.]{1,25}(?:e-?\d{1,3})?)", one)):
            raise value_error(
                "“{one}” is not a number of a matrix: X.0.3_0.5 is expected, row 0 and column 3 of X.", one=one[:40]
            )
        name, row, column, value = match.groups()
        try:
            edits.setdefault(name, {})[int(row), int(column)] = float(value)
        except ValueError:
            raise value_error("“{value}” is not a number. Write one such as 0.5.", value=value) from None
    return edits
