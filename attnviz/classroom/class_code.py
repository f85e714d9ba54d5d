"""The codes of classes, which people read from a screen and type."""

import re
import secrets

from attnviz.base.formatting import quoted
from attnviz.classroom.store import UnknownClass

ALPHABET = "23456789ABCDEFGHJKMNPQRSTUVWXYZ"  # without letters and digits that look alike: 0 O, 1 I L
CODE_LENGTH = 5


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
