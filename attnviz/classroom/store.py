"""The store of live classes: what every store can do, and its errors.

A class has sections of named values, and two versions, which grow with each change. A store is used by many threads and
processes at once; each write is one transaction.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from attnviz.base.formatting import grouped
from attnviz.base.language import _, value_error

MOST_CLASSES = 1_000
LARGEST_VALUE = 8 << 20  # bytes
Values = Mapping[str, bytes | None]  # by name; None deletes a value


class UnknownClass(ValueError):
    """There is no class with this code, or it has ended."""

    def __init__(self, code: str) -> None:
        super().__init__(
            _("There is no class {code}. Check the code for a typing error; a class may also have ended.", code=code)
        )


class TooMany(ValueError):
    """A section of a class, or the store, has as many values as it may have."""


class Changed(ValueError):
    """A value is no longer what was expected, so that nothing was written."""


class StoreError(ValueError):
    """The store cannot be read or written."""


class Versions(NamedTuple):
    """Two numbers that grow: with what all see, and with what the teacher alone sees, such as new answers."""

    shared: int
    teacher: int


class Expectation(NamedTuple):
    """A value that must be as expected for a write to happen; None: it must not exist."""

    section: str
    name: str
    value: bytes | None


class Store(Protocol):
    """Sections of values of live classes."""

    def create(self, code: str, sections: Mapping[str, Values], expires: float) -> bool:
        """Creates a class that ends at a Unix time. Returns False if the code is in use. Raises TooMany."""

    def read(self, code: str, section: str) -> dict[str, bytes]:
        """Returns all values of a section: none if the class or the section does not exist."""

    def get(self, code: str, section: str, name: str) -> bytes | None:
        """Returns one value, or None."""

    def count(self, code: str, section: str) -> int:
        """Returns the number of values in a section."""

    def write(
        self,
        code: str,
        sections: Mapping[str, Values],
        *,
        expected: Expectation | None = None,
        most: int = 1_000,
        is_shared: bool = True,
    ) -> Versions:
        """Writes values, and increments the shared version, or else the teacher's.

        Raises UnknownClass; Changed if a value is not as `expected`; TooMany if a section would have more than `most`
        values.
        """

    def versions(self, codes: Iterable[str]) -> dict[str, Versions]:
        """Returns the versions of classes; those that have ended are absent."""

    def delete(self, code: str) -> None:
        """Deletes all of a class, if there is one."""

    def delete_expired(self, now: float) -> int:
        """Deletes the classes that have ended before a Unix time. Returns their number."""


def check_sizes(sections: Mapping[str, Values]) -> None:
    """Raises ValueError if a value is larger than 8 MB."""
    largest = max((len(value) for values in sections.values() for value in values.values() if value), default=0)
    if largest > LARGEST_VALUE:
        raise value_error(
            "A class keeps at most {most} MB in one value; this one has {count} bytes.",
            most=LARGEST_VALUE >> 20,
            count=grouped(largest),
        )


def full_store() -> TooMany:
    """Returns the error for a store that has as many classes as it may have."""
    return TooMany(
        _(
            "There are {count} classes already, and no more can be started. Try again later.",
            count=grouped(MOST_CLASSES),
        )
    )


def full_section(most: int) -> TooMany:
    """Returns the error for a section that has as many values as it may have."""
    return TooMany(_("This class is full: it holds at most {most} of these.", most=grouped(most)))
