"""Numbers written by hand, and the text that a link holds of them."""

import re
from collections.abc import Mapping

LARGEST = 1000  # what a person may write in a cell; far from where a product of three would overflow

Edits = Mapping[str, Mapping[tuple[int, int], float]]  # {matrix: {(row, column): value}}


def write(edits: Edits) -> str:
    """Edits as a short text that a link can hold: “Q0.1.2_0.5~X.0.3_-1.0”."""
    return "~".join(
        f"{name}.{row}.{column}_{value!r}" for name, cells in edits.items() for (row, column), value in cells.items()
    )


def read(text: str) -> dict[str, dict[tuple[int, int], float]]:
    """The edits that `write` wrote; raises ValueError, in words, for anything else."""
    edits: dict[str, dict[tuple[int, int], float]] = {}
    for one in filter(None, text.split("~")):
        if not (found := re.fullmatch(r"([A-Za-z]+\d?)\.(\d\d?)\.(\d\d?)_(-?[\d.]{1,25}(?:e-?\d{1,3})?)", one)):
            raise ValueError(f"“{one[:40]}” is no number of a matrix: X.0.3_0.5 is expected, row 0 and column 3 of X.")
        name, row, column, value = found.groups()
        try:
            edits.setdefault(name, {})[int(row), int(column)] = float(value)
        except ValueError:
            raise ValueError(f"“{value}” is no number. Write one such as 0.5.") from None
    return edits
