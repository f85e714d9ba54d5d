"""Bookmarks of parts of a long map, as a link has them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from attnviz.inputs import MapAxes
from attnviz.language import value_error

MOST_BOOKMARKS, LONGEST_NAME = 8, 24  # bookmarks, and characters of a name
BETWEEN = "~"  # bookmarks; not in a name
ENTRY = re.compile(r"([0-9]{1,9})-([0-9]{1,9})\.([0-9]{1,9})-([0-9]{1,9})\.([0-9]{0,9})\.(.+)", re.DOTALL)


@dataclass(frozen=True)
class Bookmark:
    """A part of a map with its name: the first and last query and key, and the pinned query if there is one."""

    name: str
    queries: tuple[int, int]
    keys: tuple[int, int]
    pinned: int | None = None

    def __str__(self) -> str:
        spans = (f"{first}-{last}" for first, last in (self.queries, self.keys))
        return ".".join((*spans, "" if self.pinned is None else str(self.pinned), self.name))

    def fits(self, inputs: MapAxes) -> bool:
        """Returns whether these inputs have the part and the query."""
        return self.queries[1] < inputs.queries > (self.pinned or 0) and self.keys[1] < inputs.keys


def parse_bookmarks(text: str) -> tuple[Bookmark, ...]:
    """Returns the bookmarks of a link. Raises ValueError for any other text.

    Example:
        >>> parse_bookmarks("0-511.0-511.7.the needle~400-911.0-63..end")[1]
        Bookmark(name='end', queries=(400, 911), keys=(0, 63), pinned=None)
    """
    entries = [ENTRY.fullmatch(entry) for entry in text.split(BETWEEN)] if text else []
    marks = []
    for entry in entries:
        if entry is None or bookmark_name(entry[6]) != entry[6]:
            raise value_error("This is not a list of bookmarks.")
        first_query, last_query, first_key, last_key = map(int, entry.groups()[:4])
        if first_query > last_query or first_key > last_key:
            raise value_error("A bookmark ends before it begins.")
        pinned = int(entry[5]) if entry[5] else None
        marks.append(Bookmark(entry[6], (first_query, last_query), (first_key, last_key), pinned))
    if len(marks) > MOST_BOOKMARKS or len({mark.name for mark in marks}) < len(marks):
        raise value_error("There are more than {most} bookmarks, or two of one name.", most=MOST_BOOKMARKS)
    return tuple(marks)


def format_bookmarks(marks: Sequence[Bookmark]) -> str:
    """Returns the text of bookmarks in a link."""
    return BETWEEN.join(map(str, marks))


def bookmark_name(typed: str) -> str:
    """Returns a name as a link can hold it: short, printable, without the separator.

    Example:
        >>> bookmark_name(" the~needle\\n")
        'the needle'
    """
    printable = "".join(c if c.isprintable() and c != BETWEEN else " " for c in typed)
    return " ".join(printable.split())[:LONGEST_NAME].strip()
