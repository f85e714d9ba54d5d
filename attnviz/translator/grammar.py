"""Sentences of a small English, their French, and which word stands for which.

`_Clause` writes a sentence from left to right. At every place it asks a guide which of the words that may stand there
it should be: one draws them (`drawn`), another reads them from what was typed (`parse`).
"""

import difflib
import hashlib
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from attnviz.text import check_text, shorten_token, too_long_error
from attnviz.translator.lexicon import (
    ADJECTIVES,
    ADVERBS,
    ALIVE,
    ALL,
    BEFORE_VOWEL,
    CONTRACTED,
    DETERMINERS,
    ENGLISH,
    FREQUENCY,
    MARKS,
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

NOUN = {word: (noun, several) for noun in NOUNS for word, several in ((noun.english, False), (noun.plural, True))}
ADJECTIVE = {adjective.english: adjective for adjective in ADJECTIVES}
VERB = {words: verb for verb in VERBS for words in (verb.english, verb.third)}
BASE = tuple(dict.fromkeys(verb.english.split()[0] for verb in VERBS))
THIRD = tuple(dict.fromkeys(verb.third.split()[0] for verb in VERBS))
TYPED = {word.lower(): word for word in ENGLISH}


@dataclass(frozen=True)
class Sentence:
    """An English sentence, its French, and for each French word the places of the English words it stands for."""

    english: tuple[str, ...]
    french: tuple[str, ...]
    alignment: tuple[tuple[int, ...], ...]
    pairs: tuple[tuple[str, str], ...]  # of an adjective and its noun, or of a verb and its object, in their base forms

    @property
    def split(self) -> Split:
        """Whether it is for training, for testing, or has a pair of words that is never trained on."""
        if any(_one_in(12, " ".join(pair)) for pair in self.pairs):
            return "combinations"
        return "test" if _one_in(10, " ".join(self.english)) else "train"


def _one_in(count: int, text: str) -> bool:
    """Picks about one text in so many, the same today and tomorrow."""
    return int.from_bytes(hashlib.blake2s(text.encode(), digest_size=8).digest()) % count == 0


def sentences(split: Split, seed: int = 0) -> Iterator[Sentence]:
    """Generates sentences of a split without end, no two the same.

    Example:
        >>> next(sentences("train")).split
        'train'
    """
    generator = random.Random(seed)  # noqa: S311
    given: set[tuple[str, ...]] = set()
    while True:
        one = random_sentence(generator)
        if one.split == split and one.english not in given:
            given.add(one.english)
            yield one


def random_sentence(generator: random.Random) -> Sentence:
    """Returns a random sentence."""
    while len((clause := _Clause(_Drawing(generator))).english) > MAX_WORDS:
        pass
    return clause.sentence()


def parse(words: tuple[str, ...]) -> Sentence | None:
    """Returns the sentence of these words with its translation, or None if the grammar does not have it.

    Example:
        >>> parse(("the", "cat", "sleeps", ".")).french
        ('le', 'chat', 'dort', '.')
    """
    try:
        clause = _Clause(reading := _Reading(words))
    except _Stuck:
        return None
    return clause.sentence() if reading.at == len(words) else None


def next_words(words: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the words that may come next; none after a whole sentence, or what is not the beginning of one.

    Example:
        >>> "cat" in next_words(("the", "small"))
        True
    """
    try:
        _Clause(reading := _Reading(words))
    except _Stuck:
        return tuple(reading.expected) if reading.at == len(words) else ()
    return ()


def tokenize(text: str) -> tuple[str, ...]:
    """Returns the words of a text as the vocabulary has them, with a mark at the end.

    Raises ValueError if the text is empty, too long, or has an unknown word; the error names the nearest known words.

    Example:
        >>> tokenize("The cat doesn't sleep")
        ('the', 'cat', 'does', 'not', 'sleep', '.')
    """
    typed = re.sub(r"n['’]t\b", " not", check_text(text).strip().replace("!", "."), flags=re.IGNORECASE)
    words = re.findall(r"[.?]|[^\s.?]+", typed)
    if words and words[-1] not in MARKS:
        words.append("?" if words[0].lower() in QUESTION_WORDS else ".")
    if len(words) > MAX_WORDS:
        raise too_long_error(len(words), MAX_WORDS, "this translator")
    for word in words:
        if word.lower() not in TYPED:
            raise ValueError(_unknown(word))
    return tuple(TYPED[word.lower()] for word in words)


def _unknown(word: str) -> str:
    near = [TYPED[one] for one in difflib.get_close_matches(word.lower(), TYPED, n=3, cutoff=0.6)]
    near = near or [noun.english for noun in NOUNS if noun.kind == "animal"][:3]
    suggestions = " or ".join(filter(None, (", ".join(f"“{one}”" for one in near[:-1]), f"“{near[-1]}”")))
    return (
        f"This translator does not know the word “{shorten_token(word)}”. "
        f"It knows {len(ENGLISH)} words: try {suggestions}."
    )


class _Guide:
    """What decides which words a sentence has."""

    def choose(self, *groups: WordGroup) -> str:
        """The word that comes next."""
        raise NotImplementedError

    def maybe(self, chance: float, words: Sequence[str]) -> str | None:
        """One of these words if it comes next, or None."""
        raise NotImplementedError


class _Drawing(_Guide):
    """Draws the words."""

    def __init__(self, generator: random.Random) -> None:
        self.random = generator

    def choose(self, *groups: WordGroup) -> str:
        filled = [group for group in groups if group[1]]
        (words,) = self.random.choices([words for _, words in filled], [chance for chance, _ in filled])
        return self.random.choice(words)

    def maybe(self, chance: float, words: Sequence[str]) -> str | None:
        return self.choose((1, words)) if self.random.random() < chance else None


class _Stuck(Exception):
    """None of the words that may come next does."""


class _Reading(_Guide):
    """Reads the words; `expected` are those that could have stood at the place that it has come to."""

    def __init__(self, words: tuple[str, ...]) -> None:
        self.words, self.at = words, 0
        self.expected: dict[str, None] = {}

    def choose(self, *groups: WordGroup) -> str:
        word = self.maybe(1.0, [word for _, words in groups for word in words])
        if word is None:
            raise _Stuck
        return word

    def maybe(self, chance: float, words: Sequence[str]) -> str | None:
        if self.at < len(self.words) and self.words[self.at] in words:
            self.expected = {}
            self.at += 1
            return self.words[self.at - 1]
        self.expected |= dict.fromkeys(words)
        return None


@dataclass(frozen=True)
class _Piece:
    """A French word, what it becomes before a vowel, and the places of the English words it stands for."""

    word: str
    before_vowel: str
    places: tuple[int, ...]


@dataclass(frozen=True)
class _Subject:
    """What a verb and an adjective agree with."""

    person: int  # 0, 1, 2 for je, il, ils
    feminine: bool = False
    noun: Noun | None = None


SUBJECTS = {"I": _Subject(0), "he": _Subject(1), "she": _Subject(1, feminine=True), "they": _Subject(2)}


class _Clause:
    """A sentence, written word by word as its guide says."""

    def __init__(self, guide: _Guide) -> None:
        self.guide = guide
        self.english: list[str] = []
        self.french: list[_Piece] = []
        self.pairs: list[tuple[str, str]] = []
        self._whole()

    def sentence(self) -> Sentence:
        """What was written, where French words that meet a vowel or each other have changed."""
        words: list[tuple[str, tuple[int, ...]]] = []
        for piece in reversed(self.french):
            vowel = bool(words) and words[0][0][0] in VOWELS
            word, places = piece.before_vowel if vowel else piece.word, piece.places
            if words and (word, words[0][0]) in CONTRACTED:
                second, others = words.pop(0)
                word, places = CONTRACTED[word, second], places + others
            words.insert(0, (word, places))
        french, alignment = zip(*words, strict=True)
        return Sentence(tuple(self.english), french, alignment, tuple(self.pairs))

    def _say(self, *groups: WordGroup) -> str:
        self.english.append(self.guide.choose(*groups))
        return self.english[-1]

    def _maybe(self, chance: float, words: Sequence[str]) -> str | None:
        if word := self.guide.maybe(chance, words):
            self.english.append(word)
        return word

    @property
    def _place(self) -> int:
        """The place of the English word that was said last."""
        return len(self.english) - 1

    def _write(self, word: str, *places: int, before_vowel: str = "") -> None:
        """A French word for the English ones at these places, or for the last one."""
        before_vowel = before_vowel or BEFORE_VOWEL.get(word, word)
        self.french.append(_Piece(word, before_vowel, places or (self._place,)))

    def _whole(self) -> None:
        first = self._say(
            *((8 * chance, words) for chance, words in _determiners()), (12, tuple(PRONOUNS)), (12, QUESTION_WORDS)
        )
        if first == "where":
            are = self._say((1, ("is", "are"))) == "are"
            self._write("où", self._place - 1)
            self._write("sont" if are else "est")
            self._noun_phrase(self._say(*_determiners(are)), ALL, several=are)
        elif first == "who":
            self._write("qui")
            self._predicate(_Subject(1))
        elif first in QUESTION_WORDS:
            self._question(first)
        else:
            self._predicate(self._subject(first, ALIVE))
        mark = self._say((1, "?" if first in QUESTION_WORDS else "."))
        self._write(mark)

    def _question(self, first: str) -> None:
        several, being = first in ("do", "are"), first in ("is", "are")
        self._write("est-ce")
        self._write("que")
        pronouns = [one for one, it in SUBJECTS.items() if (it.person != 1) == several and not (being and one == "I")]
        subject = self._subject(
            self._say(*_determiners(several), (3, pronouns)), ALL if being else ALIVE, several=several
        )
        if being:
            self._being(subject, 0)
        else:
            often = self._often()
            self._verb(subject, self._say((1, BASE)), often=often)

    def _subject(self, first: str, kinds: str, several: bool | None = None) -> _Subject:
        if first in PRONOUNS:
            self._write(PRONOUNS[first])
            return SUBJECTS[first]
        noun, several = self._noun_phrase(first, kinds, several=several)
        return _Subject(1 + several, noun.feminine, noun)

    def _predicate(self, subject: _Subject) -> None:
        """What is said of the subject: what it does, does not do, or is."""
        third = subject.person == 1
        if often := self._often():
            self._verb(subject, self._say((1, THIRD if third else BASE)), often=often)
            return
        lively = subject.noun is None or subject.noun.kind in ALIVE
        word = self._say(
            (6 if lively else 1, THIRD if third else BASE),
            (2 if lively else 1, ("does" if third else "do",)),
            (2 if lively else 6, () if subject.person == 0 else ("is" if third else "are",)),
        )
        if word in ("is", "are"):
            place = self._place
            self._being(subject, place, self._place if self._maybe(0.25, ("not",)) else None)
        elif word in ("does", "do"):
            self._say((1, ("not",)))
            negation = self._place
            often = self._often()
            self._verb(subject, self._say((1, BASE)), negation=negation, often=often)
        else:
            self._verb(subject, word)

    def _often(self) -> tuple[str, int] | None:
        """The French of "often" or "always", which stands after the verb, and the place of the English."""
        word = self._maybe(0.07, tuple(FREQUENCY))
        return (FREQUENCY[word], self._place) if word else None

    def _verb(
        self, subject: _Subject, word: str, *, negation: int | None = None, often: tuple[str, int] | None = None
    ) -> None:
        places = [self._place]
        if more := [words.split()[1] for words in VERB if words.startswith(f"{word} ")]:
            word = f"{word} {self._say((1, more))}"
            places.append(self._place)
        verb = VERB[word]
        self._conjugated(verb.forms[subject.person], places, negation, often)
        if verb.object:
            determiner = self._say(*_determiners())
            noun, _ = self._noun_phrase(determiner, verb.object, negated=negation is not None)
            self.pairs.append((verb.english, noun.english))
        if verb.to:
            self._say((1, ("to",)))
            self._write("à")
            self._noun_phrase(self._say(*_determiners()), verb.to)
        self._circumstances()

    def _being(self, subject: _Subject, place: int, negation: int | None = None) -> None:
        """Says what the subject is, after an "is" or "are" at that place."""
        often = self._often()
        kind = subject.noun.kind if subject.noun else "person"
        adjective = ADJECTIVE[
            self._say((6, [one.english for one in ADJECTIVES if kind in one.kinds]), (1, tuple(ADJECTIVE)))
        ]
        said = self._place
        self._conjugated("est" if subject.person == 1 else "sont", [place], negation, often)
        self._write(_agreeing(adjective, subject.feminine, subject.person == 2), said)
        if subject.noun:
            self.pairs.append((adjective.english, subject.noun.english))
        self._circumstances()

    def _conjugated(self, form: str, places: list[int], negation: int | None, often: tuple[str, int] | None) -> None:
        if negation is not None:
            self._write("ne", negation)
        self._write(form, *places)
        if negation is not None:
            self._write("pas", negation)
        if often:
            self._write(*often)

    def _circumstances(self) -> None:
        """Where, with whom and when."""
        if word := self._maybe(0.25, tuple(PREPOSITIONS)):
            self._write(PREPOSITIONS[word])
            if word == "near":
                self._write("de")
            kinds = {"with": "person", "in": "place", "on": "thing"}.get(word, "thing place")
            self._noun_phrase(self._say(*_determiners(without="some" if word == "near" else "")), kinds)
        if word := self._maybe(0.1, tuple(ADVERBS)):
            self._write(ADVERBS[word])

    def _noun_phrase(
        self, determiner: str, kinds: str, *, several: bool | None = None, negated: bool = False, within: bool = False
    ) -> tuple[Noun, bool]:
        """A noun with its adjectives after its determiner, which was said; tells the noun and if it is a plural.

        Of a noun within another phrase no further "of" is said. Where the verb is negated, "a" and "some" are "de".
        """
        place, forms = self._place, DETERMINERS[determiner]
        found: list[tuple[Adjective, int]] = []
        while (word := self._say(*_after(determiner, several, kinds, tuple(one for one, _ in found)))) in ADJECTIVE:
            found.append((ADJECTIVE[word], self._place))
        noun, several = NOUN[word]
        said = self._place
        before = [one for one in found if one[0].first]
        if (before and determiner == "some") or (negated and determiner in ("a", "an", "some")):
            self._write("de", place)
        else:
            self._write(forms[2 if several else noun.feminine], place)
        for adjective, where in before:
            form = _agreeing(adjective, noun.feminine, several)
            alone = not several and not noun.feminine
            self._write(form, where, before_vowel=adjective.before_vowel if alone else form)
        self._write(noun.pluriel if several else noun.french, said)
        for adjective, where in found[len(before) :]:
            self._write(_agreeing(adjective, noun.feminine, several), where)
        self.pairs += [(adjective.english, noun.english) for adjective, _ in found]
        if not within and self._maybe(0.1, ("of",)):
            self._write("de")
            self._noun_phrase(self._say(*_determiners(without="some")), ALL, within=True)
        return noun, several


def _agreeing(adjective: Adjective, feminine: bool, several: bool) -> str:
    return adjective.forms[2 * several + feminine]


@cache
def _determiners(several: bool | None = None, without: str = "") -> tuple[WordGroup, ...]:
    """Determiners of one thing, of several, or of either, in groups by how common they are."""
    fit = [
        word
        for word, (one, _, more) in DETERMINERS.items()
        if word != without and {None: True, False: one, True: more}[several]
    ]
    common = (("the",), ("a", "an"), tuple(word for word in DETERMINERS if word not in ("the", "a", "an")))
    return tuple(
        (chance, tuple(word for word in words if word in fit)) for chance, words in zip((4, 2, 4), common, strict=True)
    )


@cache
def _after(determiner: str, several: bool | None, kinds: str, found: tuple[Adjective, ...]) -> tuple[WordGroup, ...]:
    """What may follow a determiner and these adjectives: nouns and further adjectives, those that make sense first.

    There is at most one adjective of either sort, that which stands before the noun in French first.
    """
    forms = DETERMINERS[determiner]
    nouns = [
        (word, noun)
        for word, (noun, plural) in NOUN.items()
        if forms[2 if plural else noun.feminine] and several in (None, plural)
    ]
    free = [one for one in ADJECTIVES if not found or found[-1].first > one.first]
    groups: tuple[WordGroup, ...] = (
        (6, [word for word, it in nouns if it.kind in kinds and all(it.kind in one.kinds for one in found)]),
        (4, [one.english for one in free if any(kind in one.kinds for kind in kinds.split())]),
        (1, [*(word for word, _ in nouns), *(one.english for one in free)]),
    )
    if determiner in ("a", "an") and not found:
        groups = tuple(
            (chance, [word for word in words if (word[0] in "aeiou") == (determiner == "an")])
            for chance, words in groups
        )
    return groups
