"""The record of one class in a store: sections of values, read and changed together."""

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from attnviz.base.language import _
from attnviz.classroom.store import Changed, Expectation, Store, UnknownClass, Values, Versions

CLASS = "class"  # the section with what is there once: the key, the view, the poll
MOST_PARTICIPANTS = 500
TRIES = 50  # of a change that another one overtakes

T = TypeVar("T")


class ClassRecord:
    """The record of a class in its store: nothing is kept here, so that any process may do any of this at any time.

    All methods raise UnknownClass after the class has ended.
    """

    def __init__(self, store: Store, code: str) -> None:
        self.store, self.code = store, code

    @property
    def version(self) -> Versions:
        versions = self.store.versions([self.code])
        if self.code not in versions:
            raise UnknownClass(self.code)
        return versions[self.code]

    def _class(self) -> dict[str, bytes]:
        values = self.store.read(self.code, CLASS)
        if not values:
            raise UnknownClass(self.code)
        return values

    def _change(
        self, name: str, change: Callable[[bytes | None], tuple[Mapping[str, Values], T]], most: int = MOST_PARTICIPANTS
    ) -> T:
        """Writes what `change` makes of a value of the class, again if another change came in between."""
        for _attempt in range(TRIES):
            stored = self._class().get(name)
            sections, result = change(stored)
            if not sections:
                return result
            try:
                self.store.write(self.code, sections, expected=Expectation(CLASS, name, stored), most=most)
            except Changed:
                continue
            return result
        raise Changed(_("Too many changes at once. Try again."))


def encode(value: Any) -> bytes:
    """Returns a value as it is stored."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
