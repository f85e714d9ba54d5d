"""Untrusted TOML, read with limits of depth and number of values.

Python's reader takes time and memory that grow with the square of the parts of a dotted key, and recurses into lists
and tables. So a scan in linear time comes first.
"""

import re
import tomllib
from typing import Any

from attnviz.base.formatting import grouped
from attnviz.base.language import value_error

MOST_PARTS = 8  # of a dotted key or of a table's name
MAX_DEPTH = 8  # of lists and tables within each other
MOST_VALUES = 1_000  # with lists and tables
LARGEST_INTEGER = (1 << 53) - 1  # that a browser shows exactly
# A string or a comment holds no part of a key. Each repetition is possessive and may end with the text, so
# that no text is read twice. Strings end as in tomllib: of five quotes, three close and two belong to the text.
TOKEN = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*+(?:"{3,5})?+'
    r"|'''(?:[^']|'(?!''))*+(?:'{3,5})?+"
    r'|"(?:[^"\\\n]|\\.)*+"?+'
    r"|'[^'\n]*+'?+"
    r"|#[^\n]*+"
    r"|[.,=\[\]{}\n]",
    re.DOTALL,
)


def parse_toml(text: str) -> dict[str, Any]:
    """Returns the table of a TOML text, whose length has been checked.

    Raises ValueError if it is not TOML, nests too deeply, has too many values, or a whole number beyond
    ±LARGEST_INTEGER.
    """
    _check_structure(text)
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise value_error("It is not TOML: {problem}.", problem=problem) from problem
    except ValueError as problem:  # more digits than Python converts
        raise _large_integer() from problem
    _check_integers(table)
    return table


def _check_structure(text: str) -> None:
    """Raises ValueError if keys, lists and tables nest too deeply, or there are too many values."""
    parts = depth = values = 0
    for token in TOKEN.finditer(text):
        match token[0]:
            case ".":
                parts += 1
            case "[" | "{":
                parts, depth, values = 0, depth + 1, values + 1
            case "]" | "}":
                parts, depth = 0, depth - 1
            case "=" | ",":
                parts, values = 0, values + 1
            case "\n":
                parts = 0
        if parts >= MOST_PARTS or depth > MAX_DEPTH:
            raise value_error(
                "Line {number} nests too deeply: a key has at most {most} parts, and lists and tables are nested "
                "at most {depth} deep.",
                number=text.count("\n", 0, token.start()) + 1,
                most=MOST_PARTS,
                depth=MAX_DEPTH,
            )
    if values > MOST_VALUES:
        raise value_error(
            "It has {count} values; at most {most} are read.", count=grouped(values), most=grouped(MOST_VALUES)
        )


def _check_integers(value: object) -> None:
    if isinstance(value, int) and abs(value) > LARGEST_INTEGER:
        raise _large_integer()
    if isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            _check_integers(one)


def _large_integer() -> ValueError:
    return value_error(
        "It has a whole number of more than {most}. Write it as text in quotes, or a smaller one.",
        most=grouped(LARGEST_INTEGER),
    )
