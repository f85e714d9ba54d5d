"""A grammar of simple English sentences with their French translations and word alignments.

`_Clause` writes a sentence from left to right. At every position it asks a word source for one of the words that may
come next: `_Sampler` draws them, `_Reader` reads them from typed words.
"""

import hashlib
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from attnviz.translator.lexicon import (
    ADJECTIVES,
    ADVERBS,
    ALIVE,
    ALL,
    BEFORE_VOWEL,
    CONTRACTED,
    DETERMINERS,
    FREQUENCY,
    NOUNS,
    PREPOSITIONS,
    PRONOUNS,
    QUESTION_WORDS,
    VERBS,
    VOWELS,
    Adjective,
    Noun,
)

MAX_WORDS = 16  # English words of a sentence, the mark at its end among them
Split = Literal["train", "test", "combinations"]
WordGroup = tuple[int, Sequence[str]]  # words that may stand at a place, and how likely they are against other groups

NOUN = {word: (noun, plural) for noun in NOUNS for word, plural in ((noun.english, False), (noun.plural, True))}
ADJECTIVE = {adjective.english: adjective for adjective in ADJECTIVES}
VERB = {words: verb for verb in VERBS for words in (verb.english, verb.third)}
BASE = tuple(dict.fromkeys(verb.english.split()[0] for verb in VERBS))
THIRD = tuple(dict.fromkeys(verb.third.split()[0] for verb in VERBS))


@dataclass(frozen=True)
class Sentence:
    """An English sentence, its French translation, and the positions of the English words of each French word."""

    english: tuple[str, ...]
    french: tuple[str, ...]
    alignment: tuple[tuple[int, ...], ...]
    pairs: tuple[tuple[str, str], ...]  # of an adjective and its noun, or of a verb and its object, in their base forms

    @property
    def split(self) -> Split:
        """The split: training, testing, or combinations of words that are never trained on."""
        if any(_one_in(12, " ".join(pair)) for pair in self.pairs):
            return "combinations"
        return "test" if _one_in(10, " ".join(self.english)) else "train"


def _one_in(count: int, text: str) -> bool:
    """Returns True for about one text in `count`, determined by its hash."""
    return int.from_bytes(hashlib.blake2s(text.encode(), digest_size=8).digest()) % count == 0


def generate_sentences(split: Split, seed: int = 0) -> Iterator[Sentence]:
    """Yields distinct sentences of a split without end.

    Example:
        >>> next(generate_sentences("train")).split
        'train'
    """
    generator = random.Random(seed)  # noqa: S311
    earlier: set[tuple[str, ...]] = set()
    while True:
        one = random_sentence(generator)
        if one.split == split and one.english not in earlier:
            earlier.add(one.english)
            yield one


def random_sentence(generator: random.Random) -> Sentence:
    """Returns a random sentence."""
    while len((clause := _Clause(_Sampler(generator))).english) > MAX_WORDS:
        pass
    return clause.sentence()


def parse_sentence(words: tuple[str, ...]) -> Sentence | None:
    """Returns the sentence with these words and its translation, or None if the grammar does not have it.

    Example:
        >>> parse_sentence(("the", "cat", "sleeps", ".")).french
        ('le', 'chat', 'dort', '.')
    """
    try:
        clause = _Clause(reading := _Reader(words))
    except _NoSuchSentence:
        return None
    return clause.sentence() if reading.position == len(words) else None


class _Sampler:
    """Draws words at random."""

    def __init__(self, generator: random.Random) -> None:
        self.random = generator

    def choose(self, *groups: WordGroup) -> str:
        """Returns the next word."""
        filled = [group for group in groups if group[1]]
        (words,) = self.random.choices([words for _, words in filled], [chance for chance, _ in filled])
        return self.random.choice(words)

    def maybe(self, chance: float, words: Sequence[str]) -> str | None:
        """Returns one of these words if it comes next, or None."""
        return self.choose((1, words)) if self.random.random() < chance else None


class _NoSuchSentence(Exception):
    """The next word does not fit the grammar."""


class _Reader:
    """Reads words from a list."""

    def __init__(self, words: tuple[str, ...]) -> None:
        self.words, self.position = words, 0

    def choose(self, *groups: WordGroup) -> str:
        word = self.maybe(1.0, [word for _, words in groups for word in words])
        if word is None:
            raise _NoSuchSentence
        return word

    def maybe(self, chance: float, words: Sequence[str]) -> str | None:
        if self.position < len(self.words) and self.words[self.position] in words:
            self.position += 1
            return self.words[self.position - 1]
        return None


@dataclass(frozen=True)
class _FrenchWord:
    """A French word, its form before a vowel, and the positions of its English words."""

    word: str
    before_vowel: str
    positions: tuple[int, ...]


@dataclass(frozen=True)
class _Subject:
    """The features of a subject that verbs and adjectives agree with."""

    person: int  # 0, 1, 2 for je, il, ils
    feminine: bool = False
    noun: Noun | None = None


SUBJECTS = {"I": _Subject(0), "he": _Subject(1), "she": _Subject(1, feminine=True), "they": _Subject(2)}


class _Clause:
    """A sentence, written with the words of a source."""

    def __init__(self, word_source: _Sampler | _Reader) -> None:
        self.word_source = word_source
        self.english: list[str] = []
        self.french: list[_FrenchWord] = []
        self.pairs: list[tuple[str, str]] = []
        self._add_sentence()

    def sentence(self) -> Sentence:
        """Returns the sentence, with elisions and contractions in French."""
        words: list[tuple[str, tuple[int, ...]]] = []
        for piece in reversed(self.french):
            vowel = bool(words) and words[0][0][0] in VOWELS
            word, positions = piece.before_vowel if vowel else piece.word, piece.positions
            if words and (word, words[0][0]) in CONTRACTED:
                second, others = words.pop(0)
                word, positions = CONTRACTED[word, second], positions + others
            words.insert(0, (word, positions))
        french, alignment = zip(*words, strict=True)
        return Sentence(tuple(self.english), french, alignment, tuple(self.pairs))

    def _add_english(self, *groups: WordGroup) -> str:
        self.english.append(self.word_source.choose(*groups))
        return self.english[-1]

    def _maybe_add_english(self, chance: float, words: Sequence[str]) -> str | None:
        if word := self.word_source.maybe(chance, words):
            self.english.append(word)
        return word

    @property
    def _last_position(self) -> int:
        """The position of the latest English word."""
        return len(self.english) - 1

    def _add_french(self, word: str, *positions: int, before_vowel: str = "") -> None:
        """Adds a French word for the English words at these positions, by default the latest."""
        before_vowel = before_vowel or BEFORE_VOWEL.get(word, word)
        self.french.append(_FrenchWord(word, before_vowel, positions or (self._last_position,)))

    def _add_sentence(self) -> None:
        first = self._add_english(
            *((8 * chance, words) for chance, words in _determiners()), (12, tuple(PRONOUNS)), (12, QUESTION_WORDS)
        )
        if first == "where":
            are = self._add_english((1, ("is", "are"))) == "are"
            self._add_french("où", self._last_position - 1)
            self._add_french("sont" if are else "est")
            self._noun_phrase(self._add_english(*_determiners(are)), ALL, plural=are)
        elif first == "who":
            self._add_french("qui")
            self._predicate(_Subject(1))
        elif first in QUESTION_WORDS:
            self._question(first)
        else:
            self._predicate(self._subject(first, ALIVE))
        mark = self._add_english((1, "?" if first in QUESTION_WORDS else "."))
        self._add_french(mark)

    def _question(self, first: str) -> None:
        plural, is_copula = first in ("do", "are"), first in ("is", "are")
        self._add_french("est-ce")
        self._add_french("que")
        pronouns = [
            one for one, it in SUBJECTS.items() if (it.person != 1) == plural and not (is_copula and one == "I")
        ]
        subject = self._subject(
            self._add_english(*_determiners(plural), (3, pronouns)), ALL if is_copula else ALIVE, plural=plural
        )
        if is_copula:
            self._add_adjective(subject, 0)
        else:
            adverb = self._frequency_adverb()
            self._verb(subject, self._add_english((1, BASE)), adverb=adverb)

    def _subject(self, first: str, kinds: str, plural: bool | None = None) -> _Subject:
        if first in PRONOUNS:
            self._add_french(PRONOUNS[first])
            return SUBJECTS[first]
        noun, plural = self._noun_phrase(first, kinds, plural=plural)
        return _Subject(1 + plural, noun.feminine, noun)

    def _predicate(self, subject: _Subject) -> None:
        """Adds what the subject does, does not do, or is."""
        third = subject.person == 1
        if adverb := self._frequency_adverb():
            self._verb(subject, self._add_english((1, THIRD if third else BASE)), adverb=adverb)
            return
        is_animate = subject.noun is None or subject.noun.kind in ALIVE
        word = self._add_english(
            (6 if is_animate else 1, THIRD if third else BASE),
            (2 if is_animate else 1, ("does" if third else "do",)),
            (2 if is_animate else 6, () if subject.person == 0 else ("is" if third else "are",)),
        )
        if word in ("is", "are"):
            position = self._last_position
            self._add_adjective(
                subject, position, self._last_position if self._maybe_add_english(0.25, ("not",)) else None
            )
        elif word in ("does", "do"):
            self._add_english((1, ("not",)))
            negation = self._last_position
            adverb = self._frequency_adverb()
            self._verb(subject, self._add_english((1, BASE)), negation=negation, adverb=adverb)
        else:
            self._verb(subject, word)

    def _frequency_adverb(self) -> tuple[str, int] | None:
        """Returns the French of "often" or "always", which follows the verb, and the position of the English word;
        or None."""
        word = self._maybe_add_english(0.07, tuple(FREQUENCY))
        return (FREQUENCY[word], self._last_position) if word else None

    def _verb(
        self, subject: _Subject, word: str, *, negation: int | None = None, adverb: tuple[str, int] | None = None
    ) -> None:
        positions = [self._last_position]
        if more := [words.split()[1] for words in VERB if words.startswith(f"{word} ")]:
            word = f"{word} {self._add_english((1, more))}"
            positions.append(self._last_position)
        verb = VERB[word]
        self._add_verb(verb.forms[subject.person], positions, negation, adverb)
        if verb.object:
            determiner = self._add_english(*_determiners())
            noun, _ = self._noun_phrase(determiner, verb.object, negated=negation is not None)
            self.pairs.append((verb.english, noun.english))
        if verb.to:
            self._add_english((1, ("to",)))
            self._add_french("à")
            self._noun_phrase(self._add_english(*_determiners()), verb.to)
        self._add_adverbials()

    def _add_adjective(self, subject: _Subject, position: int, negation: int | None = None) -> None:
        """Adds a predicative adjective after an "is" or "are" at that position."""
        adverb = self._frequency_adverb()
        kind = subject.noun.kind if subject.noun else "person"
        adjective = ADJECTIVE[
            self._add_english((6, [one.english for one in ADJECTIVES if kind in one.kinds]), (1, tuple(ADJECTIVE)))
        ]
        adjective_position = self._last_position
        self._add_verb("est" if subject.person == 1 else "sont", [position], negation, adverb)
        self._add_french(_adjective_form(adjective, subject.feminine, subject.person == 2), adjective_position)
        if subject.noun:
            self.pairs.append((adjective.english, subject.noun.english))
        self._add_adverbials()

    def _add_verb(self, form: str, positions: list[int], negation: int | None, adverb: tuple[str, int] | None) -> None:
        if negation is not None:
            self._add_french("ne", negation)
        self._add_french(form, *positions)
        if negation is not None:
            self._add_french("pas", negation)
        if adverb:
            self._add_french(*adverb)

    def _add_adverbials(self) -> None:
        """Adds where, with whom and when."""
        if word := self._maybe_add_english(0.25, tuple(PREPOSITIONS)):
            self._add_french(PREPOSITIONS[word])
            if word == "near":
                self._add_french("de")
            kinds = {"with": "person", "in": "place", "on": "thing"}.get(word, "thing place")
            self._noun_phrase(self._add_english(*_determiners(without="some" if word == "near" else "")), kinds)
        if word := self._maybe_add_english(0.1, tuple(ADVERBS)):
            self._add_french(ADVERBS[word])

    def _noun_phrase(
        self, determiner: str, kinds: str, *, plural: bool | None = None, negated: bool = False, within: bool = False
    ) -> tuple[Noun, bool]:
        """Adds a noun phrase after its determiner; returns the noun and whether it is plural.

        A noun `within` another phrase gets no further "of". After a negated verb, "a" and "some" are "de".
        """
        position, forms = self._last_position, DETERMINERS[determiner]
        adjectives: list[tuple[Adjective, int]] = []
        while (
            word := self._add_english(
                *_noun_phrase_words(determiner, plural, kinds, tuple(one for one, _ in adjectives))
            )
        ) in ADJECTIVE:
            adjectives.append((ADJECTIVE[word], self._last_position))
        noun, plural = NOUN[word]
        noun_position = self._last_position
        before = [one for one in adjectives if one[0].first]
        if (before and determiner == "some") or (negated and determiner in ("a", "an", "some")):
            self._add_french("de", position)
        else:
            self._add_french(forms[2 if plural else noun.feminine], position)
        for adjective, adjective_position in before:
            form = _adjective_form(adjective, noun.feminine, plural)
            alone = not plural and not noun.feminine
            self._add_french(form, adjective_position, before_vowel=adjective.before_vowel if alone else form)
        self._add_french(noun.pluriel if plural else noun.french, noun_position)
        for adjective, adjective_position in adjectives[len(before) :]:
            self._add_french(_adjective_form(adjective, noun.feminine, plural), adjective_position)
        self.pairs += [(adjective.english, noun.english) for adjective, _ in adjectives]
        if not within and self._maybe_add_english(0.1, ("of",)):
            self._add_french("de")
            self._noun_phrase(self._add_english(*_determiners(without="some")), ALL, within=True)
        return noun, plural


def _adjective_form(adjective: Adjective, feminine: bool, plural: bool) -> str:
    return adjective.forms[2 * plural + feminine]


@cache
def _determiners(plural: bool | None = None, without: str = "") -> tuple[WordGroup, ...]:
    """Returns the determiners of singular, plural or any nouns, in groups by frequency."""
    fit = [
        word
        for word, (one, _, more) in DETERMINERS.items()
        if word != without and {None: True, False: one, True: more}[plural]
    ]
    common = (("the",), ("a", "an"), tuple(word for word in DETERMINERS if word not in ("the", "a", "an")))
    return tuple(
        (chance, tuple(word for word in words if word in fit)) for chance, words in zip((4, 2, 4), common, strict=True)
    )


@cache
def _noun_phrase_words(
    determiner: str, plural: bool | None, kinds: str, adjectives: tuple[Adjective, ...]
) -> tuple[WordGroup, ...]:
    """Returns the words that may follow a determiner and these adjectives, in groups by how much sense they make.

    There is at most one adjective before the French noun and one after it.
    """
    forms = DETERMINERS[determiner]
    nouns = [
        (word, noun)
        for word, (noun, is_plural) in NOUN.items()
        if forms[2 if is_plural else noun.feminine] and plural in (None, is_plural)
    ]
    free = [one for one in ADJECTIVES if not adjectives or adjectives[-1].first > one.first]
    groups: tuple[WordGroup, ...] = (
        (6, [word for word, it in nouns if it.kind in kinds and all(it.kind in one.kinds for one in adjectives)]),
        (4, [one.english for one in free if any(kind in one.kinds for kind in kinds.split())]),
        (1, [*(word for word, _ in nouns), *(one.english for one in free)]),
    )
    if determiner in ("a", "an") and not adjectives:
        groups = tuple(
            (chance, [word for word in words if (word[0] in "aeiou") == (determiner == "an")])
            for chance, words in groups
        )
    return groups
