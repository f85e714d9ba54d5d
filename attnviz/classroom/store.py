"""Where classes are kept: the interface of a store, and how one is opened."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from attnviz.formatting import quoted

Part = Literal["state", "panel"]
LARGEST = 8 << 20  # bytes of a value


class StoreError(Exception):
    """The store cannot be reached, or not be written."""


class UnknownClass(ValueError):
    """A code without a class: mistyped, or the class has ended."""


@dataclass(frozen=True)
class Version:
    """How often each part of a class has changed: what everybody sees, and what the teacher sees beside it."""

    state: int
    panel: int

    def number(self, part: Part) -> str:
        """Returns the version of what everybody sees, or of all that the teacher sees."""
        return str(self.state) if part == "state" else f"{self.state}.{self.panel}"


class Store(Protocol):
    """Values of classes by group and field. Every method is one transaction, and raises StoreError if it fails."""

    def create(self, code: str, values: Mapping[str, bytes], expires: float) -> bool:
        """Creates a class with values of the group "class"; returns False if the code is taken. `expires` is in seconds
        since 1970."""

    def read(self, code: str, group: str) -> dict[str, bytes]:
        """Returns the values of a group by field, in the order in which the fields were first written."""

    def get(self, code: str, group: str, field: str) -> bytes | None:
        """Returns a value, or None."""

    def fields(self, code: str, group: str) -> list[str]:
        """Returns the names of the fields of a group, without their values."""

    def count(self, code: str, group: str) -> int:
        """Returns the number of fields of a group."""

    def write(self, code: str, group: str, values: Mapping[str, bytes | None], part: Part, most: int) -> None:
        """Writes values, removes those that are None, and counts a new version of a part. Raises UnknownClass, and
        ValueError if the group would have more than `most` fields."""

    def swap(self, code: str, group: str, field: str, before: bytes | None, after: bytes, part: Part) -> bool:
        """Writes a value if the one `before` is still there; returns whether it was. Raises UnknownClass."""

    def versions(self, codes: Collection[str]) -> dict[str, Version]:
        """Returns the versions of those classes that have not ended."""

    def delete(self, code: str) -> None:
        """Deletes a class and all its values."""


def open_store(address: str) -> Store:
    """Returns the store at an address: a file of SQLite, or redis://host:port/number, which several servers share.

    Raises ValueError if the address is none of these, ImportError if redis is not installed.
    """
    scheme, separator, rest = address.partition("://")
    if separator and scheme in ("redis", "rediss"):
        from attnviz.classroom.redis_store import RedisStore

        return RedisStore(address)
    if separator and scheme != "sqlite":
        raise ValueError(f"Classes are kept in a file or at redis://host:port; {quoted(address)} is neither.")
    from attnviz.classroom.sqlite_store import SQLiteStore

    return SQLiteStore(Path(rest if separator else address).expanduser())
