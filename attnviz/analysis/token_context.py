"""The text around a token, put together from tokens of any kind, and where a phrase is in it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from attnviz.base.language import _

PIECE = "##"  # begins a token that continues a word, in WordPiece
NO_SPACE_BEFORE, NO_SPACE_AFTER = (*".,;:!?)]}",), (*"([{",)


class TextPart(NamedTuple):
    """A part of a text: a token at a position that was asked for, or what stands between them, without a position."""

    text: str
    position: int | None = None


@dataclass(frozen=True)
class TokenContext:
    """A token with the text before and after it; the three joined are the text."""

    before: str
    token: str
    after: str


def token_context(tokens: Sequence[str], position: int, width: int = 8) -> TokenContext:
    """Returns the text of at most `width` tokens to each side of the one at `position`, as `marked_text` has it. Raises
    IndexError if there is no such position.

    Example:
        >>> token_context(["[CLS]", "un", "##believ", "##able", "(", "it", "is", ")"], 2, 3)
        TokenContext(before='[CLS] un', token='believ', after='able (it …')
    """
    before, token, after = (part.text for part in marked_text(tokens, [position], width))
    return TokenContext(before, token, after)


def marked_text(tokens: Sequence[str], positions: Iterable[int], width: int = 8) -> list[TextPart]:
    """Returns the text of at most `width` tokens to each side of those at some positions, in parts: each of these
    tokens, and what stands before, between and after them, which may be empty.

    Tokens that have spaces of their own, as those of BPE and SentencePiece have, are put together as they are. Others
    are words, or pieces of words that begin with ##; there is a space between words, as in usual writing. An ellipsis
    stands where the text goes on. Raises IndexError if there is no such position.

    Example:
        >>> [tuple(part) for part in marked_text(["The", "cat", "saw", "a", "cat"], [1, 4], 1)]
        [('The ', None), ('cat', 1), (' saw a ', None), ('cat', 4), ('', None)]
    """
    places = sorted({*positions})
    for place in places:
        if not 0 <= place < len(tokens):
            raise IndexError(_("There are {count} tokens, none at {position}.", count=len(tokens), position=place))
    shown = sorted({i for place in places for i in range(max(0, place - width), min(len(tokens), place + width + 1))})
    spaced = any(tokens[i][:1].isspace() or tokens[i][-1:].isspace() for i in shown)
    parts, between = [], "… " * (shown[0] > 0)
    for i, last in zip(shown, [None, *shown], strict=False):
        is_gap = last is not None and i > last + 1
        piece = tokens[i] if spaced else _spaced(tokens[i], "(" if last is None or is_gap else tokens[last])
        between += " … " * is_gap
        if i not in places:
            between += piece
            continue
        bare = piece.strip() or piece  # spaces do not belong to what is marked
        start = piece.index(bare)
        parts += [TextPart(between + piece[:start]), TextPart(bare, i)]
        between = piece[start + len(bare) :]
    return [*parts, TextPart(between + " …" * (shown[-1] + 1 < len(tokens)))]


def is_piece(token: str) -> bool:
    """Returns whether a token continues the word before it, by the mark of WordPiece."""
    return token.startswith(PIECE) and len(token) > len(PIECE) and not token.startswith(PIECE + "#")


def _spaced(token: str, left: str) -> str:
    """Returns a word or a piece of one as it stands after the token on its left."""
    if is_piece(token):
        return token.removeprefix(PIECE)
    return token if token in NO_SPACE_BEFORE or left in NO_SPACE_AFTER else f" {token}"


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
    at_offset = dict(zip(accumulate(map(len, parts), initial=0), range(len(parts)), strict=False))
    positions, offset = [], text.find(pattern)
    while offset >= 0:
        # Of tokens with one offset, such as line breaks before a word, the last one has the letters.
        if offset in at_offset:
            positions.append(at_offset[offset])
        offset = text.find(pattern, offset + 1)
    return positions


def _letters(text: str) -> str:
    return "".join((text.removeprefix(PIECE) if is_piece(text) else text).casefold().split())
