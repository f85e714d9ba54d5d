"""Limits and checks of typed text."""

from attnviz.formatting import grouped
from attnviz.language import value_error

EXAMPLE = "The animal didn't cross the street because it was too tired."
LONGEST_TEXT = 512  # tokens of a toy sequence: as many as the pretrained model reads, so that both can be compared
CHARACTERS = 100_000  # of a text; checked before tokenization, which takes memory
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


def too_long_error(tokens: int, limit: int, reader: str) -> ValueError:
    """Returns the error for a text with more tokens than `reader` accepts."""
    return ValueError(f"This text has {tokens:,} tokens, and {reader} reads at most {limit:,}. Shorten the text.")


def shorten_token(token: str) -> str:
    """Returns a token with at most 200 characters."""
    return token if len(token) <= LONGEST_TOKEN else token[: LONGEST_TOKEN - 1] + "…"
