"""Lines of text that anybody in a class may send."""

import unicodedata

from attnviz.base.formatting import grouped
from attnviz.base.language import value_error


def plain_line(text: str, longest: int, too_long: str) -> str:
    """Returns a text in one line, without control characters and those that change the direction of what follows.

    Raises ValueError if it has more than `longest` characters.

    Example:
        >>> plain_line("  Ada\\u202e\\n L. ", 40, "At most {most} characters; this has {count}.")
        'Ada L.'
    """
    if not isinstance(text, str):
        raise value_error("This is not a text.")
    shown = (" " if c.isspace() else c for c in text[: 10 * longest])
    line = " ".join("".join(c for c in shown if unicodedata.category(c)[0] != "C" or c == "\u200d").split())
    if len(line) > longest or len(text) > 10 * longest:
        raise value_error(too_long, most=longest, count=grouped(len(text)))
    return line
