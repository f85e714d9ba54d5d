"""The text a person types."""

EXAMPLE = "The animal didn't cross the street because it was too tired."
TOKENS = 512  # as many as the pretrained model reads; a toy sequence is kept as short, so that both can be compared


CHARACTERS = 100_000  # looked at before the text is cut into tokens, which takes memory
LONGEST_TOKEN = 200  # characters kept of each token


def checked(text: str) -> str:
    """The text, if there is something in it that can be cut into tokens; ValueError says what is missing."""
    if not text.strip():
        raise ValueError("There is no text yet. Type a word or a sentence.")
    if len(text) > CHARACTERS:
        raise ValueError(f"This text has {len(text):,} characters; at most {CHARACTERS:,} are read. Shorten the text.")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError("The text holds half a character (a lone surrogate). Type or paste it again.")
    return text


def too_long(tokens: int, limit: int, reader: str) -> ValueError:
    """What to say when a text has more tokens than can be read: nothing is dropped without a word."""
    return ValueError(f"This text has {tokens:,} tokens, and {reader} reads at most {limit:,}. Shorten the text.")


def shortened(token: str) -> str:
    """A token as it is kept for reading: one without end would fill every picture and file."""
    return token if len(token) <= LONGEST_TOKEN else token[: LONGEST_TOKEN - 1] + "…"
