"""Live classes: how one is started, opened and ended."""

import hashlib
import hmac
import re
import secrets
import time
from dataclasses import dataclass

from attnviz.base.formatting import quoted
from attnviz.base.language import _
from attnviz.classroom.class_record import CLASS, TRIES, encode
from attnviz.classroom.messages import Messages
from attnviz.classroom.polls import NO_POLL, Polls
from attnviz.classroom.store import Store, TooMany, UnknownClass, Values

ALPHABET = "23456789ABCDEFGHJKMNPQRSTUVWXYZ"  # without letters and digits that look alike: 0 O, 1 I L
CODE_LENGTH = 5


@dataclass(frozen=True)
class Teaching:
    """A class that has been started: its code for all, and the key with which its teacher leads it."""

    code: str
    key: str


class LiveClass(Polls, Messages):
    """One class: its participants, what its teacher shows and asks, and what they ask."""

    def is_teacher(self, key: str) -> bool:
        """Returns whether this is the key of the teacher."""
        return hmac.compare_digest(_digest(key).encode(), self._class().get("key", b""))

    def end(self) -> None:
        """Deletes all of the class."""
        self.store.delete(self.code)


class Classes:
    """The live classes of a store; a class is kept for `hours` hours."""

    def __init__(self, store: Store, hours: float = 24) -> None:
        self.store, self.hours = store, hours

    def start(self) -> Teaching:
        """Starts a class. Raises TooMany if there are too many."""
        key, now = secrets.token_urlsafe(24), time.time()
        values: Values = {"key": _digest(key).encode(), "poll": encode(NO_POLL), "started": encode(now)}
        for _attempt in range(TRIES):
            code = random_code()
            if self.store.create(code, {CLASS: values}, now + 3600 * self.hours):
                return Teaching(code, key)
        raise TooMany(_("No class can be started at present. Try again later."))

    def open(self, code: str) -> LiveClass:
        """Returns the class with a code, in upper or lower case. Raises UnknownClass."""
        known = normalize_code(code)
        if known not in self.store.versions([known]):
            raise UnknownClass(known)
        return LiveClass(self.store, known)

    def delete_expired(self) -> int:
        """Deletes the classes that have ended. Returns their number."""
        return self.store.delete_expired(time.time())


def _digest(key: str) -> str:
    return hashlib.sha256(str(key).encode("utf-8", "replace")).hexdigest()


def random_code() -> str:
    """Returns a code."""
    return "".join(secrets.choice(ALPHABET) for _ in range(CODE_LENGTH))


def normalize_code(code: str) -> str:
    """Returns a code in upper case without spaces and hyphens. Raises UnknownClass if it cannot be one.

    Example:
        >>> normalize_code(" k7-m2q ")
        'K7M2Q'
    """
    known = re.sub(r"[\s-]", "", str(code)[:40]).upper()
    if len(known) != CODE_LENGTH or not {*known} <= {*ALPHABET}:
        raise UnknownClass(quoted(code, 20))
    return known
