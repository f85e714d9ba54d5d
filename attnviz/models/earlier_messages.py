"""The messages of a chat before the last one, as a link has them."""

import json
from collections.abc import Sequence
from typing import Any

from attnviz.base.language import value_error
from attnviz.base.text import CHARACTERS

MOST_MESSAGES = 64


def parse_messages(text: str) -> tuple[str, ...]:
    """Returns the messages of a link, by the user and the model in turn. Raises ValueError for any other text.

    Example:
        >>> parse_messages('["What is 2+2?","4"]')
        ('What is 2+2?', '4')
    """
    problem = value_error("This is not a list of messages, by a user and a model in turn.")
    try:
        messages: Any = json.loads(text or "[]") if len(text) <= CHARACTERS else None
        "".join(messages).encode()  # half a character cannot be encoded
    except (ValueError, TypeError, RecursionError) as error:
        raise problem from error
    if not isinstance(messages, list) or len(messages) % 2 or len(messages) > MOST_MESSAGES:
        raise problem
    return tuple(messages)


def format_messages(messages: Sequence[str]) -> str:
    """Returns the text of messages in a link."""
    return json.dumps(messages, ensure_ascii=False, separators=(",", ":")) if messages else ""
