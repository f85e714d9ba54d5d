"""What a mask is, and how masks combine."""

import re
from collections.abc import Iterator
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass, replace
from functools import reduce
from itertools import pairwise, starmap
from operator import and_, eq, ge, gt, le, lt, ne
from typing import Any, ClassVar, Literal

from attnviz.masks.terms import Number, Position, Term

# Positions, or what is made of them: tensors that broadcast against each other, or symbols that write a rule down.
At = Any
Comparison = Literal["<", "<=", "==", "!=", ">=", ">"]
COMPARISONS = {"<": lt, "<=": le, "==": eq, "!=": ne, ">=": ge, ">": gt}
OPPOSITE: dict[Comparison, Comparison] = {"<": ">=", "<=": ">", "==": "!=", "!=": "==", ">=": "<", ">": "<="}
MIRRORED: dict[Comparison, Comparison] = {"<": ">", "<=": ">=", "==": "==", "!=": "!=", ">=": "<=", ">": "<"}
SAID = {"<": "is less than", "<=": "is at most", "==": "is", "!=": "is not", ">=": "is at least", ">": "is more than"}
KEY_AND_QUERY = {"<": "is before it", "<=": "is not after it", "==": "is at the same position"}
KEY_AND_QUERY |= {"!=": "is not at the same position", ">=": "is not before it", ">": "is after it"}
FIRST = {"q": "the query", "k": "the key", "h": "the head"}


class Mask:
    """A predicate on positions, True where query q may attend to key k: FlexAttention's `mask_mod`.

    b, h, q and k are the positions of batch, head, query and key, as whole-number tensors that
    broadcast against each other. Masks combine with &, | and ~.

    A rule is made of + - * // %, abs, clamp, comparisons, & | ~ and `looked_up`, so that it can be written down
    (symbols.py) as well as computed. `str(mask)` is its text in the language of language.py.
    """

    def __call__(self, b: At, h: At, q: At, k: At) -> At:
        raise NotImplementedError

    def condition(self) -> str:
        """When a query sees a key, in English: what follows “if”."""
        raise NotImplementedError

    def describe(self) -> str:
        """The mask as a sentence."""
        return f"A query sees a key if {self.condition()}."

    def bind(self, queries: int, keys: int, heads: int) -> "Mask":
        """This mask for so many queries and keys: itself, unless its rule depends on how many there are."""
        return self

    def __str__(self) -> str:
        # Numbers are always written, choices and masks only where they are not what they are without being said.
        given: list[str] = []
        skipped = False
        for one in _fields(self):
            value = getattr(self, one.name)
            if isinstance(value, str | Mask) and value == _default(one):
                skipped = True
            elif one.default is None:
                continue  # what a mask is told when it is bound, its text does not say
            else:
                given.append(f"{one.name}=" * skipped + _argument(value))
        return f"{word(type(self))}({', '.join(given)})" if given else word(type(self))

    def __and__(self, other: "Mask") -> "Mask":
        return And(self, other)

    def __or__(self, other: "Mask") -> "Mask":
        return Or(self, other)

    def __invert__(self) -> "Mask":
        return Not(self)


@dataclass(frozen=True, repr=False)
class Combined(Mask):
    """Two masks and a sign between them."""

    SIGN: ClassVar[str]
    SAID: ClassVar[str]  # what stands between conditions in English

    left: Mask
    right: Mask

    def bind(self, queries: int, keys: int, heads: int) -> Mask:
        return replace(self, left=self.left.bind(queries, keys, heads), right=self.right.bind(queries, keys, heads))

    def parts(self) -> Iterator[Mask]:
        """The masks that one sign after the other combines: a, b and c of a & b & c."""
        for part in (self.left, self.right):
            if type(part) is type(self) and isinstance(part, Combined):
                yield from part.parts()
            else:
                yield part

    def condition(self) -> str:
        return self.SAID.join(map(_clause, self.parts()))

    def __str__(self) -> str:
        binds = BINDING[type(self)]
        return f"{_written(self.left, binds)} {self.SIGN} {_written(self.right, binds + 1)}"

    def __repr__(self) -> str:
        return f"({self.left!r} {self.SIGN} {self.right!r})"


class And(Combined):
    """What both masks allow."""

    SIGN, SAID = "&", " and "

    def __call__(self, b: At, h: At, q: At, k: At) -> At:
        return self.left(b, h, q, k) & self.right(b, h, q, k)


class Or(Combined):
    """What at least one of two masks allows."""

    SIGN, SAID = "|", ", or "

    def __call__(self, b: At, h: At, q: At, k: At) -> At:
        return self.left(b, h, q, k) | self.right(b, h, q, k)


@dataclass(frozen=True, repr=False)
class Not(Mask):
    """What a mask does not allow."""

    mask: Mask

    def __call__(self, b: At, h: At, q: At, k: At) -> At:
        return ~self.mask(b, h, q, k)

    def bind(self, queries: int, keys: int, heads: int) -> Mask:
        return Not(self.mask.bind(queries, keys, heads))

    def condition(self) -> str:
        if isinstance(self.mask, Compare) and len(self.mask.signs) == 1:
            return replace(self.mask, signs=(OPPOSITE[self.mask.signs[0]],)).condition()
        return f"it is not so that {_clause(self.mask)}"

    def __str__(self) -> str:
        # ~k < 2 would do, but people who know Python read it otherwise.
        return f"~{_written(self.mask, SINGLE if isinstance(self.mask, Compare) else BINDING[Not])}"

    def __repr__(self) -> str:
        return f"~{self.mask!r}"


@dataclass(frozen=True)
class Compare(Mask):
    """Terms compared, each with the next: 0 <= q - k < 4."""

    terms: tuple[Term, ...]
    signs: tuple[Comparison, ...]

    def __call__(self, b: At, h: At, q: At, k: At) -> At:
        at = {"b": b, "h": h, "q": q, "k": k}
        values = [term.value(at) for term in self.terms]
        compared = [COMPARISONS[sign](*pair) for sign, pair in zip(self.signs, pairwise(values), strict=True)]
        # Numbers compared with numbers say True or False, of which the positions make a tensor or a symbol.
        return reduce(and_, ((q >= 0 if said else q < 0) if isinstance(said, bool) else said for said in compared))

    def bind(self, queries: int, keys: int, heads: int) -> Mask:
        return replace(self, terms=tuple(term.bind(queries, keys) for term in self.terms))

    def condition(self) -> str:
        if len(self.signs) == 2:
            first, middle, last = self.terms
            return f"{middle.words()} {_than(MIRRORED[self.signs[0]], first)} and {_than(self.signs[1], last)}"
        return " and ".join(starmap(_compared, zip(self.terms, self.signs, self.terms[1:], strict=False)))

    def __str__(self) -> str:
        first, *others = self.terms
        return " ".join([str(first), *(f"{sign} {term}" for sign, term in zip(self.signs, others, strict=True))])


class OfLengths(Mask):
    """A mask whose rule depends on how many queries and keys there are."""

    def bind(self, queries: int, keys: int, heads: int) -> Mask:
        return Bound(self, queries, keys)

    def among(self, queries: int, keys: int, h: At, q: At, k: At) -> At:
        """The rule for so many queries and keys."""
        raise NotImplementedError

    def __call__(self, b: At, h: At, q: At, k: At) -> At:
        raise ValueError(f"{type(self).__name__} depends on the lengths: call bind(queries, keys, heads) first.")


@dataclass(frozen=True)
class Bound(Mask):
    """A mask whose rule depends on the lengths, for these."""

    mask: OfLengths
    queries: int
    keys: int

    def bind(self, queries: int, keys: int, heads: int) -> Mask:
        return self.mask.bind(queries, keys, heads)

    def __call__(self, b: At, h: At, q: At, k: At) -> At:
        return self.mask.among(self.queries, self.keys, h, q, k)

    def condition(self) -> str:
        return self.mask.condition()

    def __str__(self) -> str:
        return str(self.mask)


@dataclass(frozen=True)
class Shifted(Mask):
    """A mask whose queries stand `by` positions further on, as when earlier keys are cached."""

    mask: Mask
    by: int

    def __call__(self, b: At, h: At, q: At, k: At) -> At:
        return self.mask(b, h, q + self.by, k)

    def bind(self, queries: int, keys: int, heads: int) -> Mask:
        return replace(self, mask=self.mask.bind(queries, keys, heads))

    def condition(self) -> str:
        by = f"{abs(self.by)} position{'s' * (abs(self.by) != 1)} {'later' if self.by >= 0 else 'earlier'}"
        return f"{_clause(self.mask)}, counted as if each query stood {by}"


def word(kind: type[Mask]) -> str:
    """The name of a mask in the language: SlidingWindow is sliding_window, Neighborhood2D neighborhood_2d."""
    return re.sub(r"(?<=[a-z])(?=[A-Z0-9])|(?<=[A-Z0-9])(?=[A-Z][a-z])", "_", kind.__name__).lower()


def choice(value: str) -> str:
    """A choice of a parameter as one word of the language: "steps back" is steps_back."""
    return re.sub(r"\W+", "_", value).lower()


def _fields(mask: Mask) -> tuple[Field, ...]:
    return fields(mask) if is_dataclass(mask) else ()


def _default(one: Field) -> object:
    return one.default if one.default_factory is MISSING else one.default_factory()


def _argument(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_argument, value))}]"
    if isinstance(value, bool):
        return str(int(value))
    return choice(value) if isinstance(value, str) else str(value)


BINDING: dict[type[Mask], int] = {Or: 1, And: 2, Not: 3, Compare: 4}  # how tightly a sign binds; what has none: SINGLE
SINGLE = 5


def _written(mask: Mask, least: int) -> str:
    """A mask's text, in parentheses if it binds less tightly than this."""
    return f"({mask})" if BINDING.get(type(mask), SINGLE) < least else str(mask)


def _clause(mask: Mask) -> str:
    """A condition as part of a longer one, in parentheses where it would be unclear how far it goes."""
    condition = mask.condition()
    return f"({condition})" if re.search(r",| and | or |not so", condition) else condition


def _compared(left: Term, sign: Comparison, right: Term) -> str:
    """Two terms compared, in English."""
    if isinstance(left, Number) or (left, right) == (Position("q"), Position("k")):
        left, sign, right = right, MIRRORED[sign], left
    if (left, right) == (Position("k"), Position("q")):
        return f"the key {KEY_AND_QUERY[sign]}"
    if isinstance(right, Number) and isinstance(left, Position) and left.name in FIRST:
        # Positions count from 0, so that the first 3 are those below 3.
        count = right.number + (sign in ("<=", ">"))
        one, several = ("is", "is one of") if sign in ("<", "<=") else ("is not", "is not one of")
        if sign in ("<", "<=", ">", ">=") and count >= 1:
            return f"{FIRST[left.name]} {one if count == 1 else several} the first" + f" {count}" * (count > 1)
    return f"{left.words()} {_than(sign, right)}"


def _than(sign: Comparison, term: Term) -> str:
    return f"{SAID[sign]} {term.words()}"


def at_least(mask: Mask, name: str, value: int, least: int) -> None:
    """Raises ValueError, in words, where a parameter is too small."""
    if value < least:
        raise ValueError(f"{type(mask).__name__} needs {name} ≥ {least}; it got {value}.")


def one_of(mask: Mask, name: str, value: str, choices: tuple[str, ...]) -> None:
    """Raises ValueError, in words, where a parameter is none of its choices."""
    if value not in choices:
        raise ValueError(f"{type(mask).__name__} needs {name} to be one of {', '.join(choices)}; it got {value!r}.")
