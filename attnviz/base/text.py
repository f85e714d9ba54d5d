"""Limits and checks of typed text."""

import unicodedata

from attnviz.base.formatting import grouped
from attnviz.base.language import value_error

EXAMPLE = "The animal didn't cross the street because it was too tired."
LONGEST_TEXT = 512  # tokens of a toy sequence: as many as the pretrained model reads, so that both can be compared
CHARACTERS = 100_000  # of a text; checked before tokenization, which takes memory
OPENS = "([{“‘«„¿¡"  # begin a word, as letters and digits do
JOINS_NEXT = f"{OPENS}\"'’-‐‑/\\@#$€£_"  # after them a word goes on
LONGEST_TOKEN = 200  # characters kept of each token


def check_text(text: str, most: int = CHARACTERS) -> str:
    """Returns the text. Raises ValueError if it is empty, not valid Unicode, or has more than `most` characters.

    Example:
        >>> check_text("to be or not")
        'to be or not'
    """
    if not text.strip():
        raise value_error("There is no text yet. Type a word or a sentence.")
    if len(text) > most:
        raise value_error(
            "This text has {count} characters; at most {most} are read. Shorten the text.",
            count=grouped(len(text)),
            most=grouped(most),
        )
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise value_error("The text holds half a character (a lone surrogate). Type or paste it again.")
    return text


def continuation(text: str, more: str) -> str:
    """Returns `more` as it is read right after `text`: with a space before it where two words would become one.

    Example:
        >>> continuation("The capital of France is", "Paris"), continuation("to be", ", or not")
        (' Paris', ', or not')
    """
    before, after = text[-1:], more[:1]
    # Words of scripts that are written in wide characters have no spaces between them.
    wide = any(unicodedata.east_asian_width(one) in "WF" for one in before + after)
    ends = bool(before) and not before.isspace() and before not in JOINS_NEXT
    return f" {more}" if ends and not wide and (after.isalnum() or after in OPENS) else more


def too_long_error(tokens: int, limit: int, reader: str) -> ValueError:
    """Returns the error for a text with more tokens than `reader` accepts."""
    return ValueError(f"This text has {tokens:,} tokens, and {reader} reads at most {limit:,}. Shorten the text.")


def shorten_token(token: str) -> str:
    """Returns a token with at most 200 characters."""
    return token if len(token) <= LONGEST_TOKEN else token[: LONGEST_TOKEN - 1] + "…"
