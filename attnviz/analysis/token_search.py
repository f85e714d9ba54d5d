"""The search for a word or a phrase in a text of tokens."""

from collections.abc import Sequence
from itertools import accumulate

from attnviz.analysis.token_context import PIECE, is_piece


def find_phrase(tokens: Sequence[str], phrase: str) -> list[int]:
    """Returns the positions of the tokens with which a phrase begins, in ascending order; none for an empty phrase.

    Upper and lower case are equal, and spaces and the ## of WordPiece do not count, so that a phrase is the same
    however its tokenizer cuts words. A phrase begins with a token, and may end inside of one.

    Example:
        >>> find_phrase(["The", "ani", "##mal", "didn", "'", "t", "see", "the", "animals"], "Animal")
        [1, 8]
        >>> find_phrase([" I", " didn", "'t", "\\n"], "i didn't")
        [0]
    """
    pattern = _letters(phrase.strip())
    if not pattern:
        return []
    parts = [*map(_letters, tokens)]
    text = "".join(parts)
    at_offset = {offset: i for i, offset in enumerate(accumulate(map(len, parts), initial=0)) if i < len(parts)}
    positions, offset = [], text.find(pattern)
    while offset >= 0:
        # Of tokens with one offset, such as line breaks before a word, the last one has the letters.
        if offset in at_offset:
            positions.append(at_offset[offset])
        offset = text.find(pattern, offset + 1)
    return positions


def _letters(text: str) -> str:
    return "".join((text.removeprefix(PIECE) if is_piece(text) else text).casefold().split())
