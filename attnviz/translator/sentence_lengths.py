"""The accuracy of a translator by the length of the sentence, with attention and with one vector for the sentence."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache, lru_cache

from attnviz.translator.encoder_decoder import FIXED_VECTOR
from attnviz.translator.grammar import MAX_WORDS, Sentence, generate_sentences
from attnviz.translator.translation import Translator
from attnviz.translator.weights import FOLDER, load

COMPARED = ("scaled dot", FIXED_VECTOR)
LENGTHS = range(4, MAX_WORDS + 1)  # English words of a sentence, the mark at its end among them
SENTENCES = 50  # of each length
FILE = FOLDER / "sentence-lengths.json"


@dataclass(frozen=True)
class LengthAccuracy:
    """The accuracy of a translator on sentences of one length."""

    length: int
    sentences: float  # share of sentences that are right in every word
    words: float  # share of the words of the right translations that are there, in their order


def accuracy_by_length(translator: Translator, by_length: dict[int, Sequence[Sentence]]) -> tuple[LengthAccuracy, ...]:
    """Returns the accuracy of a translator on sentences of each length.

    Example:
        >>> from attnviz.translator import load, parse_sentence
        >>> sentence = parse_sentence(("the", "cat", "sleeps", "."))
        >>> accuracy_by_length(load(), {4: [sentence]})
        (LengthAccuracy(length=4, sentences=1.0, words=1.0),)
    """
    return tuple(_accuracy(translator, length, sentences) for length, sentences in by_length.items())


def _accuracy(translator: Translator, length: int, sentences: Sequence[Sentence]) -> LengthAccuracy:
    translations = translator.translate_batch([one.english for one in sentences])
    pairs = [(french, one.french) for french, one in zip(translations, sentences, strict=True)]
    right_words = sum(len(matching_words(french, right)) for french, right in pairs)
    return LengthAccuracy(
        length,
        round(sum(french == right for french, right in pairs) / len(pairs), 4),
        round(right_words / sum(len(right) for _, right in pairs), 4),
    )


def matching_words(french: Sequence[str], right: Sequence[str]) -> list[tuple[int, int]]:
    """Returns the positions of the words that two translations have in the same order: a longest common subsequence.

    Example:
        >>> matching_words(["la", "voiture", "est", "verte"], ["la", "petite", "voiture", "est", "rouge"])
        [(0, 0), (1, 2), (2, 3)]
    """

    @cache
    def matches(i: int, j: int) -> tuple[tuple[int, int], ...]:
        """Returns those from position i of one and j of the other to their ends."""
        if i == len(french) or j == len(right):
            return ()
        if french[i] == right[j]:
            return ((i, j), *matches(i + 1, j + 1))
        return max(matches(i + 1, j), matches(i, j + 1), key=len)

    return [*matches(0, 0)]


@lru_cache(maxsize=1)
def sentences_by_length() -> dict[int, Sequence[Sentence]]:
    """Returns SENTENCES sentences of each length from those kept apart for testing."""
    by_length: dict[int, list[Sentence]] = {length: [] for length in LENGTHS}
    for sentence in generate_sentences("test", seed=1):
        some = by_length.get(len(sentence.english), [])
        if len(some) < SENTENCES:
            some.append(sentence)
        if all(len(one) == SENTENCES for one in by_length.values()):
            break
    return dict(by_length)


def shipped_accuracies() -> dict[str, tuple[LengthAccuracy, ...]]:
    """Returns the accuracies that were computed after the training, for each translator in COMPARED.

    Example:
        >>> attention, fixed_vector = (found[-1] for found in shipped_accuracies().values())
        >>> attention.sentences > fixed_vector.sentences
        True
    """
    read = json.loads(FILE.read_text())
    return {variant: tuple(LengthAccuracy(**one) for one in read[variant]) for variant in COMPARED}


def save_accuracies() -> None:
    """Computes and saves the accuracies of the shipped translators."""
    computed = {variant: accuracy_by_length(load(variant), sentences_by_length()) for variant in COMPARED}
    FILE.write_text(json.dumps(computed, default=asdict))
