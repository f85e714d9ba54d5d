"""Masks, their combinations, and the conversion of their rules to symbols."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import Field, dataclass, fields, is_dataclass, replace
from functools import partialmethod, reduce
from itertools import pairwise, starmap
from operator import and_, or_
from typing import Any, ClassVar, TypeVar

import torch
from jaxtyping import Bool
from torch import Tensor

from attnviz.base.language import N_, _, plural, value_error
from attnviz.base.parameters import Parameterized
from attnviz.masks.comparisons import (
    COMPARISONS,
    MIRRORED,
    OPPOSITE,
    ComparisonSign,
    describe_comparison,
    describe_limit,
)
from attnviz.masks.terms import Arithmetic, ArithmeticSign, Function, Lookup, Number, Term, Variable
from attnviz.masks.visible_keys import keys_in_words


class Symbol:
    """A symbolic position: arithmetic on it makes a term, a comparison makes a mask.

    Example:
        >>> q, k = Symbol(Variable("q")), Symbol(Variable("k"))
        >>> str(((q - k < 4) & (k <= q)).mask)
        'q - k < 4 & k <= q'
    """

    def __init__(self, expression: "Term | Mask") -> None:
        self.expression = expression

    @property
    def term(self) -> Term:
        """The term, if this is a number. Raises TypeError if it is a condition."""
        if not isinstance(self.expression, Term):
            raise TypeError(_("{expression} is a condition, and a number is needed.", expression=self.expression))
        return self.expression

    @property
    def mask(self) -> "Mask":
        """The mask, if this is a condition. Raises TypeError if it is a number."""
        if not isinstance(self.expression, Mask):
            raise TypeError(_("{expression} is a number, and a condition is needed.", expression=self.expression))
        return self.expression

    def _arithmetic(self, sign: ArithmeticSign, other: "Symbol | int") -> "Symbol":
        return Symbol(Arithmetic(sign, self.term, _as_term(other)))

    def _reflected(self, sign: ArithmeticSign, other: int) -> "Symbol":
        return Symbol(Arithmetic(sign, Number(int(other)), self.term))

    def _comparison(self, sign: ComparisonSign, other: "Symbol | int") -> "Symbol":
        return Symbol(Compare((self.term, _as_term(other)), (sign,)))

    __add__, __radd__ = partialmethod(_arithmetic, "+"), partialmethod(_reflected, "+")
    __sub__, __rsub__ = partialmethod(_arithmetic, "-"), partialmethod(_reflected, "-")
    __mul__, __rmul__ = partialmethod(_arithmetic, "*"), partialmethod(_reflected, "*")
    __floordiv__, __rfloordiv__ = partialmethod(_arithmetic, "//"), partialmethod(_reflected, "//")
    __mod__, __rmod__ = partialmethod(_arithmetic, "%"), partialmethod(_reflected, "%")
    __lt__, __le__ = partialmethod(_comparison, "<"), partialmethod(_comparison, "<=")
    __gt__, __ge__ = partialmethod(_comparison, ">"), partialmethod(_comparison, ">=")
    __eq__, __ne__ = partialmethod(_comparison, "=="), partialmethod(_comparison, "!=")  # type: ignore[assignment]

    def __neg__(self) -> "Symbol":
        return self._reflected("-", 0)

    def __abs__(self) -> "Symbol":
        return Symbol(Function("abs", (self.term,)))

    def clamp(self, min: "Symbol | int | None" = None, max: "Symbol | int | None" = None) -> "Symbol":
        raised = self.term if min is None else Function("max", (self.term, _as_term(min)))
        return Symbol(raised if max is None else Function("min", (raised, _as_term(max))))

    clip = clamp  # as NumPy calls it, and torch too

    def take_from(self, numbers: tuple[int, ...]) -> "Symbol":
        return Symbol(Lookup(numbers, self.term))

    def __and__(self, other: "Symbol") -> "Symbol":
        return Symbol(self.mask & other.mask)

    def __or__(self, other: "Symbol") -> "Symbol":
        return Symbol(self.mask | other.mask)

    def __invert__(self) -> "Symbol":
        return Symbol(~self.mask)


def _as_term(value: Symbol | int) -> Term:
    return value.term if isinstance(value, Symbol) else Number(int(value))


# Positions, and what is made of them: a tensor that computes, or a symbol that writes down what is done to it.
Array = TypeVar("Array", Tensor, Symbol)


class Mask(Parameterized):
    """A predicate on positions, True where query q may attend to key k: FlexAttention's `mask_mod`.

    b, h, q and k are the positions of batch, head, query and key: tensors of whole numbers that broadcast against
    each other, or symbols. Masks combine with &, | and ~.

    A rule may use + - * // %, abs, clamp, comparisons, & | ~ and `take`, so that it can be written down (`rule`) as
    well as computed. `str(mask)` is its text in the language of parser.py.

    Example:
        >>> from attnviz.masks import Causal, SlidingWindow
        >>> mask = Causal() & ~SlidingWindow(2)
        >>> mask.matrix(3, 3).long()
        tensor([[0, 0, 0],
                [0, 0, 0],
                [1, 0, 0]])
        >>> str(mask)
        'causal & ~sliding_window(2)'
    """

    # When a query may attend to a key, as the end of a sentence after “if”, with names of fields in braces.
    CONDITION: ClassVar[str] = N_("the mask allows it")

    def __call__(self, b: Array, h: Array, q: Array, k: Array) -> Array:
        raise NotImplementedError

    def condition(self) -> str:
        """Returns CONDITION with the values of the fields, in the current language."""
        named = (one.name for one in _parameters(self) if f"{{{one.name}}}" in self.CONDITION)
        return _(self.CONDITION, **{name: _condition_text(getattr(self, name)) for name in named})

    def describe(self) -> str:
        """Returns the mask as a sentence: the keys that a query sees, or else when it sees one."""
        if keys := keys_in_words(self):
            return _("A query sees {keys}.", keys=keys)
        return _("A query sees a key if {condition}.", condition=self.condition())

    def bind(self, queries: int, keys: int, heads: int) -> "Mask":
        """Returns this mask for these numbers of queries, keys and heads; itself, if it does not depend on them.

        The masks that it is made of are bound as well. Raises ValueError if one is made for other numbers.
        """
        parts = {one.name: getattr(self, one.name) for one in _parameters(self)}
        bound = {name: part.bind(queries, keys, heads) for name, part in parts.items() if isinstance(part, Mask)}
        return replace(self, **bound) if bound else self  # type: ignore[type-var]

    def table_size(self) -> int:
        """Returns how many numbers its rule looks up in tables whose length follows from its parameters."""
        return 0

    def matrix(self, queries: int, keys: int, head: int = 0) -> Bool[Tensor, "queries keys"]:
        """Returns the mask of one head as a matrix of booleans."""
        zero, q, k = torch.tensor(0), torch.arange(queries)[:, None], torch.arange(keys)
        return self.bind(queries, keys, head + 1)(zero, torch.tensor(head), q, k).expand(queries, keys)

    def __str__(self) -> str:
        # Numbers are always written; choices and masks only where they differ from their default.
        arguments: list[str] = []
        skipped = False
        for parameter in _parameters(self):
            value = getattr(self, parameter.name)
            if isinstance(value, str | Mask) and value == parameter.default:
                skipped = True
            elif parameter.default is not None:  # what is None is filled in when the mask is bound
                arguments.append(f"{parameter.name}=" * skipped + _argument_text(value))
        return f"{snake_case(type(self))}({', '.join(arguments)})" if arguments else snake_case(type(self))

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
    CLAUSES: ClassVar[str]  # the two conditions in a sentence
    OPERATION: ClassVar[Callable[[Any, Any], Any]]

    left: Mask
    right: Mask

    def __call__(self, b: Array, h: Array, q: Array, k: Array) -> Array:
        return type(self).OPERATION(self.left(b, h, q, k), self.right(b, h, q, k))

    def operands(self) -> Iterator[Mask]:
        """Yields the masks that one sign after the other combines: a, b and c of a & b & c."""
        for operand in (self.left, self.right):
            if type(operand) is type(self) and isinstance(operand, Combined):
                yield from operand.operands()
            else:
                yield operand

    def condition(self) -> str:
        return _joined(self.CLAUSES, map(_clause, self.operands()))

    def __str__(self) -> str:
        precedence = PRECEDENCE[type(self)]
        return f"{_parenthesized(self.left, precedence)} {self.SIGN} {_parenthesized(self.right, precedence + 1)}"

    def __repr__(self) -> str:
        return f"({self.left!r} {self.SIGN} {self.right!r})"


class And(Combined):
    """The cells that both masks allow."""

    SIGN, CLAUSES, OPERATION = "&", N_("{left} and {right}"), and_


class Or(Combined):
    """The cells that at least one of two masks allows."""

    SIGN, CLAUSES, OPERATION = "|", N_("{left}, or {right}"), or_


@dataclass(frozen=True, repr=False)
class Not(Mask):
    """The cells that a mask does not allow."""

    mask: Mask

    def __call__(self, b: Array, h: Array, q: Array, k: Array) -> Array:
        return ~self.mask(b, h, q, k)

    def condition(self) -> str:
        if isinstance(self.mask, Compare) and len(self.mask.signs) == 1:
            return replace(self.mask, signs=(OPPOSITE[self.mask.signs[0]],)).condition()
        return _("it is not so that {clause}", clause=_clause(self.mask))

    def __str__(self) -> str:
        # ~k < 2 would do, but people who know Python read it otherwise.
        return f"~{_parenthesized(self.mask, ATOM if isinstance(self.mask, Compare) else PRECEDENCE[Not])}"

    def __repr__(self) -> str:
        return f"~{self.mask!r}"


@dataclass(frozen=True)
class Compare(Mask):
    """A chain of comparisons of terms, such as 0 <= q - k < 4."""

    terms: tuple[Term, ...]
    signs: tuple[ComparisonSign, ...]

    def __call__(self, b: Array, h: Array, q: Array, k: Array) -> Array:
        values = [term.value({"b": b, "h": h, "q": q, "k": k}) for term in self.terms]
        compared = [COMPARISONS[sign](*pair) for sign, pair in zip(self.signs, pairwise(values), strict=True)]
        # Numbers compared with numbers give True or False, which the positions make a tensor or a symbol of.
        return reduce(and_, ((q >= 0 if each else q < 0) if isinstance(each, bool) else each for each in compared))

    def bind(self, queries: int, keys: int, heads: int) -> Mask:
        return replace(self, terms=tuple(term.with_lengths(queries, keys) for term in self.terms))

    def condition(self) -> str:
        if len(self.signs) == 2:
            first, middle, last = self.terms
            lower, upper = describe_limit(MIRRORED[self.signs[0]], first), describe_limit(self.signs[1], last)
            return _("{describe} {lower} and {upper}", describe=middle.describe(), lower=lower, upper=upper)
        comparisons = zip(self.terms, self.signs, self.terms[1:], strict=False)
        return _joined(And.CLAUSES, starmap(describe_comparison, comparisons))

    def __str__(self) -> str:
        first, *others = self.terms
        return " ".join([str(first), *(f"{sign} {term}" for sign, term in zip(self.signs, others, strict=True))])


class LengthDependent(Mask):
    """A mask whose rule depends on the numbers of queries and keys."""

    def bind(self, queries: int, keys: int, heads: int) -> Mask:
        return Bound(self, queries, keys)

    def allowed(self, queries: int, keys: int, h: Array, q: Array, k: Array) -> Array:
        """Returns where query q may attend to key k, among these numbers of queries and keys."""
        raise NotImplementedError

    def __call__(self, b: Array, h: Array, q: Array, k: Array) -> Array:
        raise value_error(
            "{name} depends on the lengths: call bind(queries, keys, heads) first.", name=type(self).__name__
        )


@dataclass(frozen=True)
class Bound(Mask):
    """A mask whose rule depends on the numbers of queries and keys, with these numbers."""

    mask: LengthDependent
    queries: int
    keys: int

    def bind(self, queries: int, keys: int, heads: int) -> Mask:
        return self.mask.bind(queries, keys, heads)

    def __call__(self, b: Array, h: Array, q: Array, k: Array) -> Array:
        return self.mask.allowed(self.queries, self.keys, h, q, k)

    def condition(self) -> str:
        return self.mask.condition()

    def __str__(self) -> str:
        return str(self.mask)


@dataclass(frozen=True)
class Shifted(Mask):
    """A mask whose queries are shifted by `by` positions, as when earlier keys are cached."""

    mask: Mask
    by: int

    def __call__(self, b: Array, h: Array, q: Array, k: Array) -> Array:
        return self.mask(b, h, q + self.by, k)

    def condition(self) -> str:
        count = abs(self.by)
        by = (
            plural("{count} position later", "{count} positions later", count, count=count)
            if self.by >= 0
            else plural("{count} position earlier", "{count} positions earlier", count, count=count)
        )
        return _("{clause}, counted as if each query were {shift}", clause=_clause(self.mask), shift=by)


def _joined(message: str, clauses: Iterable[str]) -> str:
    return reduce(lambda left, right: _(message, left=left, right=right), clauses)


def rule(mask: Mask, queries: int, keys: int) -> Mask:
    """Returns the rule of a mask for these numbers of queries and keys: And, Or and Not of comparisons of terms.

    Raises TypeError or AttributeError if the rule cannot be written down, as that of a mask that only knows tensors.

    Example:
        >>> from attnviz.masks import SlidingWindow
        >>> str(rule(SlidingWindow(4), 8, 8))
        'k <= q & q - k <= 3'
    """
    b, h, q, k = (Symbol(Variable(name)) for name in "bhqk")
    return mask.bind(queries, keys, 1)(b, h, q, k).mask


def terms_in(rule: Mask) -> Iterator[Term]:
    """Yields all terms of a rule from left to right, the parts of each before it."""
    match rule:
        case Combined(left, right):
            yield from terms_in(left)
            yield from terms_in(right)
        case Not(mask):
            yield from terms_in(mask)
        case Compare(terms):
            for term in terms:
                yield from term.subterms()


def snake_case(kind: type[Mask]) -> str:
    """Returns the name of a mask in the language: SlidingWindow is sliding_window, Neighborhood2D neighborhood_2d."""
    return re.sub(r"(?<=[a-z])(?=[A-Z0-9])|(?<=[A-Z0-9])(?=[A-Z][a-z])", "_", kind.__name__).lower()


def choice_word(value: str) -> str:
    """Returns a choice of a parameter as a word of the language: "steps back" is steps_back."""
    return re.sub(r"\W+", "_", value).lower()


def _parameters(mask: Mask) -> tuple[Field, ...]:
    return fields(mask) if is_dataclass(mask) else ()


def _argument_text(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_argument_text, value))}]"
    if isinstance(value, bool):
        return str(int(value))
    return choice_word(value) if isinstance(value, str) else str(value)


def _condition_text(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return value.condition() if isinstance(value, Mask) else str(value)


PRECEDENCE: dict[type[Mask], int] = {Or: 1, And: 2, Not: 3, Compare: 4}  # how tightly a sign binds; others are an ATOM
ATOM = 5


def _parenthesized(mask: Mask, least: int) -> str:
    """Returns a mask's text, in parentheses if it binds less tightly than `least`."""
    return f"({mask})" if PRECEDENCE.get(type(mask), ATOM) < least else str(mask)


def _clause(mask: Mask) -> str:
    """Returns a condition as part of a longer one, in parentheses if it would be ambiguous."""
    condition = mask.condition()
    return f"({condition})" if re.search(r",| and | or |not so| und | oder ", condition) else condition
