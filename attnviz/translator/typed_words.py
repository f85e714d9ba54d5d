"""The words of typed text: English that is to be translated, or French that stands for a translation."""

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from attnviz.base.formatting import enumeration
from attnviz.base.language import _
from attnviz.base.text import check_text, shorten_token, too_long_error
from attnviz.translator.grammar import MAX_WORDS
from attnviz.translator.lexicon import ENGLISH, FRENCH, MARKS, QUESTION_WORDS

ENGLISH_WORDS = re.compile(r"[.?!]|n['’]t\b|(?:(?!n['’]t\b)[^\s.?!])+", re.IGNORECASE)
FRENCH_WORDS = re.compile(r"[.?!]|aujourd['’]hui|[^\s.?!'’]+['’]?", re.IGNORECASE)
ENDS = (*MARKS, "!")
OTHER_FORMS = {"!": ".", "n't": "not"}  # of words of the vocabulary
MISTYPED = 0.8  # the share of its letters that a word has in common with one that may be meant


class TypedWord(NamedTuple):
    """A word as in the vocabulary, and the characters that were typed for it."""

    word: str
    start: int
    end: int


def tokenize(text: str) -> tuple[str, ...]:
    """Returns the words of an English text as in the vocabulary, with an end mark.

    Raises ValueError if the text is empty, too long, or has unknown words; the message names them.

    Example:
        >>> tokenize("The cat doesn't sleep")
        ('the', 'cat', 'does', 'not', 'sleep', '.')
    """
    return tuple(typed.word for typed in english_words(text))


def english_words(text: str) -> list[TypedWord]:
    """Returns the words of an English text; no character stands for an end mark that is added. Raises as `tokenize`."""
    words = _words(ENGLISH_WORDS, text)
    if words and words[-1].word not in ENDS:
        asks = words[0].word.lower() in QUESTION_WORDS
        words.append(TypedWord("?" if asks else ".", len(text), len(text)))
    if len(words) > MAX_WORDS:
        raise too_long_error(len(words), MAX_WORDS, _("this translator"))
    return _known(words, ENGLISH)


def french_words(text: str) -> list[TypedWord]:
    """Returns the words of a French text. Raises ValueError if it is empty or has unknown words.

    Example:
        >>> [typed.word for typed in french_words("L’enfant dort !")]
        ["l'", 'enfant', 'dort', '.']
    """
    return _known(_words(FRENCH_WORDS, text), FRENCH)


def _words(pattern: re.Pattern[str], text: str) -> list[TypedWord]:
    return [TypedWord(match[0], *match.span()) for match in pattern.finditer(check_text(text))]


def _known(words: Sequence[TypedWord], vocabulary: Sequence[str]) -> list[TypedWord]:
    """Returns words as in the vocabulary. Raises ValueError for unknown ones."""
    by_form = {word.lower(): word for word in vocabulary}
    forms = [typed.word.lower().replace("’", "'") for typed in words]
    forms = [OTHER_FORMS.get(form, form) for form in forms]
    unknown = {typed.word: form for typed, form in zip(words, forms, strict=True) if form not in by_form}
    if unknown:
        raise ValueError(_unknown(unknown, by_form))
    return [typed._replace(word=by_form[form]) for typed, form in zip(words, forms, strict=True)]


def _unknown(words: Mapping[str, str], by_form: Mapping[str, str]) -> str:
    """Returns a sentence that names unknown words, and of those that look mistyped what may be meant."""
    named = enumeration([f"“{shorten_token(word)}”" for word in words])
    sentence = _("The translator knows {count} words, but not {words}.", count=len(by_form), words=named)
    meant = [
        f"“{by_form[form]}”"
        for word in words.values()
        for form in difflib.get_close_matches(word, by_form, n=1, cutoff=MISTYPED)
    ]
    return f"{sentence} {_('Did you mean {words}?', words=enumeration(meant, 'or'))}" if meant else sentence
