"""Tables of numbers as spreadsheets and pandas write them: which row is a header, and which column names the rows."""

import math
import re
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from attnviz.base.formatting import quoted
from attnviz.base.language import N_, _, plural, value_error

TOKEN_NAMES = {"token": "tokens", "tokens": "tokens", "query_tokens": "tokens", "key_tokens": "key_tokens"}
INDEX_NAME = re.compile(r"|index|unnamed: [0-9]+|level_[0-9]+", re.IGNORECASE)  # as pandas names an index
SEPARATORS = {
    ",": N_("commas"),
    ";": N_("semicolons"),
    "\t": N_("tabs"),
    "|": N_("vertical bars"),
    " ": N_("spaces"),
}

Rows = list[tuple[int, list[str]]]  # the number of a row in the file, and its cells


@dataclass(frozen=True, eq=False)
class NumberTable:
    """A matrix, and the names of its rows and columns, where they have any."""

    matrix: np.ndarray
    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()


def read_rows(rows: Rows, delimiter: str) -> NumberTable:
    """Returns the table in rows of cells, the first of which may be a header. Raises ValueError if there are no numbers
    in it, rows differ in length, or counted numbers may be a header or an index as well as data."""
    rows = rows[1:] if rows and rows[0][1][0].startswith("sep=") else rows  # what Excel may write first
    _check_separator(rows, delimiter)
    header = _header(*rows[0]) if rows else []
    rows = rows[1:] if header else rows
    if not rows:
        raise value_error("This file holds no numbers. Give it one row of them for each token.")
    first = [row[0] for _, row in rows]
    is_named = all(parse_number(cell) is None for cell in first)
    if not header and all(map(_has_comma, first)):
        _refuse_cell(rows[0][0], 0, rows[0][1])
    if header:
        is_index = is_named or [parse_number(cell) for cell in first] in _countings(len(first))
        if is_index and len(header) == len(rows[0][1]) - 1:  # R writes nothing above the names of rows
            header = ["", *header]
        is_named |= header[0].strip().lower() in (*TOKEN_NAMES, "id", "idx")
        is_named |= bool(INDEX_NAME.fullmatch(header[0].strip()))
        _check_headings(header, rows)
    start = int(is_named)
    matrix = _matrix(rows, start)
    if not header and _is_counted(matrix[0], matrix[1:]):
        raise value_error(
            "Row {n} counts {numbers}, so it may be a header or numbers. If it is a header, delete it; if it holds "
            "numbers, write names such as d0, d1, d2 in a row above it.",
            n=rows[0][0],
            numbers=_shown(matrix[0]),
        )
    table = NumberTable(matrix, tuple(first) if is_named else (), tuple(header[start:]))
    check_index(table)
    return table


def check_index(table: NumberTable) -> None:
    """Raises ValueError if rows have no names, and the first column counts them: it may be an index."""
    stems = {re.sub("[0-9]+$", "", heading.strip()) for heading in table.columns}
    are_alike = len(stems) == 1 or (stems and all(len(stem) == 1 for stem in stems))  # d0, d1, d2, or x, y, z
    if not (table.rows or are_alike) and _is_counted(table.matrix[:, 0], table.matrix[:, 1:]):
        raise value_error(
            "The first column counts {numbers}, so it may be an index or numbers. If it is an index, delete it; if "
            "it holds numbers, name all columns alike, such as d0, d1, d2.",
            numbers=_shown(table.matrix[:, 0]),
        )


def parse_number(cell: str) -> float | None:
    """Returns the finite number in a cell; None if there is none."""
    try:
        number = float(cell)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _header(n: int, first: list[str]) -> list[str]:
    """Returns the cells of the first row if they are headings, else none."""
    corner, others = first[0].strip().lower(), [parse_number(cell) for cell in first[1:]]
    if corner in TOKEN_NAMES:
        return first
    if all(parse_number(cell) is None for cell in first):
        if wrong := [column for column, cell in enumerate(first) if _has_comma(cell)]:
            _refuse_cell(n, wrong[0], first)
        return first
    if not corner and None not in others:
        if others in _countings(len(others)):  # as pandas writes columns without names, above an index
            return first
        raise value_error(
            "Row 1, column 1 is empty. Write “token” there if this row is a header, else what is missing: the "
            "token or the number."
        )
    return []


def _countings(length: int) -> tuple[list[int], list[int]]:
    """Returns the numbers of `length` rows or columns, counted from 0 and from 1."""
    return [*range(length)], [*range(1, length + 1)]


def _is_counted(numbers: np.ndarray, others: np.ndarray) -> bool:
    """Returns whether two numbers or more count from 0, or from 1 beside numbers that are not all whole."""
    if len(numbers) < 2 or not others.size:
        return False
    from_0, from_1 = _countings(len(numbers))
    return numbers.tolist() == from_0 or (numbers.tolist() == from_1 and bool((others % 1 != 0).any()))


def _shown(numbers: np.ndarray) -> str:
    return ", ".join(f"{number:g}" for number in numbers[:3]) + (", …" if len(numbers) > 3 else "")


def _check_headings(header: list[str], rows: Rows) -> None:
    n, row = rows[0]
    if len(header) != len(row):
        raise value_error(
            "Row {n} has {count} columns, but {width} have a heading. Give all rows the same number of columns.",
            n=n,
            count=len(row),
            width=len(header),
        )
    for column, heading in enumerate(header[1:], 2):
        if INDEX_NAME.fullmatch(heading.strip()):
            raise value_error(
                "Column {column} is called {heading}, as an index is. Delete it, or give it another name, such as d0.",
                column=column,
                heading=quoted(heading),
            )


def _matrix(rows: Rows, start: int) -> np.ndarray:
    top, width = rows[0][0], len(rows[0][1]) - start
    matrix = np.empty((len(rows), width))
    for (n, row), into in zip(rows, matrix, strict=True):
        if len(row) - start != width:
            raise ValueError(
                plural(
                    "Row {n} has {count} number, but row {top} has {width}. Give all rows the same number of columns.",
                    "Row {n} has {count} numbers, but row {top} has {width}. Give all rows the same number of columns.",
                    len(row) - start,
                    n=n,
                    count=len(row) - start,
                    top=top,
                    width=width,
                )
            )
        values = [parse_number(cell) for cell in row[start:]]
        if None in values:
            _refuse_cell(n, values.index(None) + start, row)
        into[:] = values
    return matrix


def _has_comma(cell: str) -> bool:
    """Whether a cell holds a number with commas, such as 0,5 or 1,000."""
    return "," in cell and parse_number(cell.replace(",", "")) is not None


def _refuse_cell(n: int, column: int, row: list[str]) -> NoReturn:
    """Raises ValueError for a cell that is not a number."""
    cell = row[column]
    if _has_comma(cell):
        raise value_error(
            "Row {n}, column {column} holds {cell}. Write decimals with a point, and nothing between thousands, as "
            "in 1000.5.",
            n=n,
            column=column + 1,
            cell=quoted(cell),
        )
    problem = (
        _("Row {row}, column {column} holds {cell}, which is not a finite number. Write a number there.")
        if cell
        else _("Row {row}, column {column} is empty. Write a number there.")
    ).format(row=n, column=column + 1, cell=quoted(cell))
    hint = [] if column else [_("If the first column holds tokens, write “token” above it.")]
    raise ValueError(" ".join([problem, *hint]))


def _check_separator(rows: Rows, delimiter: str) -> None:
    """Raises ValueError if cells are separated by something else: each line has as many of it, and numbers between."""
    lines = [delimiter.join(row) for _, row in rows]
    for separator, name in SEPARATORS.items():
        # A space may stand in the name of a row, and a comma in a number.
        if separator == delimiter or (separator in " ," and any(len(row) > 1 for _, row in rows)):
            continue
        parts = [line.split(separator) for line in lines]
        last = parts[-1][1:] if parts else []
        if last and {*map(len, parts)} == {len(parts[0])} and all(_is_number_of_any_country(cell) for cell in last):
            raise value_error(
                "Cells of this file are separated by {got}. Save it with {expected} between them, and points for "
                "decimals.",
                got=_(name),
                expected=_(SEPARATORS[delimiter]),
            )


def _is_number_of_any_country(cell: str) -> bool:
    return parse_number(cell.strip().strip('"').replace(",", ".", 1)) is not None
