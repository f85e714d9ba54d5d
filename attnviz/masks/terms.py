"""Integer terms of positions, which the rules of masks compare."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from torch import Tensor

from attnviz.base.cached_property import cached_property
from attnviz.base.formatting import enumeration
from attnviz.base.language import N_, _, value_error

ArithmeticSign = Literal["+", "-", "*", "//", "%"]
Index = TypeVar("Index")  # a tensor, a symbol or a whole number
Bounds = tuple[int, int]  # the least and the greatest number that a term can be
LENGTHS = ("n_q", "n_k")  # names that stand for a number as soon as a mask is bound
POSITION_BOUNDS: dict[str, Bounds] = {  # where the positions of any example lie
    "b": (0, 1 << 20),
    "h": (0, 1023),
    "q": (0, 1 << 20),
    "k": (0, 1 << 20),
    "n_q": (1, 1 << 20),
    "n_k": (1, 1 << 20),
}
INT64_MAX = (1 << 63) - 1  # beyond it 64 bits overflow

OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "min": lambda a, b: _minimum(a, b),
    "max": lambda a, b: _maximum(a, b),
}
PRECEDENCE = {"+": 1, "-": 1, "*": 2, "//": 2, "%": 2}  # how tightly a sign binds; a single term: ATOM
ATOM = 3
PHRASES = {
    "+": N_("{left} plus {right}"),
    "-": N_("{left} minus {right}"),
    "*": N_("{left} times {right}"),
    "//": N_("{left} divided by {right} (rounded down)"),
    "%": N_("{left} modulo {right}"),
}
POSITIONS = {
    "b": N_("the example's number in the batch"),
    "h": N_("the head's number"),
    "q": N_("the query's position"),
    "k": N_("the key's position"),
    "n_q": N_("the number of queries"),
    "n_k": N_("the number of keys"),
}


class Term:
    """An integer term of positions. `str(term)` is its text in the language of parser.py."""

    def value(self, positions: Mapping[str, Any]) -> Any:
        """Returns the number at these positions: arrays (torch, NumPy) that broadcast, symbols, or whole numbers."""
        raise NotImplementedError

    def parts(self) -> tuple["Term", ...]:
        """Returns the operands or arguments of this term."""
        return ()

    def with_parts(self, *parts: "Term") -> "Term":
        """Returns this term with other parts."""
        return self

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of the positions that this term depends on."""
        return frozenset().union(*(part.names for part in self.parts()))

    def subterms(self) -> Iterator["Term"]:
        """Yields all terms within this one, innermost first, and this one last."""
        for part in self.parts():
            yield from part.subterms()
        yield self

    def with_lengths(self, queries: int, keys: int) -> "Term":
        """Returns this term with numbers in place of n_q and n_k."""
        return self.with_parts(*(part.with_lengths(queries, keys) for part in self.parts()))

    def bounds(self, ranges: Mapping[str, Bounds] = POSITION_BOUNDS) -> Bounds:
        """Returns the least and the greatest value for positions in these ranges.

        Raises ValueError if a divisor may be 0 or a number may need more than 64 bits.
        """
        raise NotImplementedError

    def describe(self) -> str:
        """Returns this term in English."""
        raise NotImplementedError


@dataclass(frozen=True)
class Number(Term):
    """A constant."""

    number: int

    def value(self, positions: Mapping[str, Any]) -> Any:
        return self.number

    def bounds(self, ranges: Mapping[str, Bounds] = POSITION_BOUNDS) -> Bounds:
        return self.number, self.number

    def describe(self) -> str:
        return str(self.number)

    def __str__(self) -> str:
        return str(self.number)


@dataclass(frozen=True)
class Variable(Term):
    """The position of a query (q), key (k), head (h) or batch (b), or the number of queries (n_q) or keys (n_k)."""

    name: str

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset({self.name})

    def value(self, positions: Mapping[str, Any]) -> Any:
        if self.name not in positions:
            raise value_error(
                "A rule with {name} depends on the lengths: call bind(queries, keys, heads) first.", name=self.name
            )
        return positions[self.name]

    def with_lengths(self, queries: int, keys: int) -> Term:
        return Number({"n_q": queries, "n_k": keys}[self.name]) if self.name in LENGTHS else self

    def bounds(self, ranges: Mapping[str, Bounds] = POSITION_BOUNDS) -> Bounds:
        return ranges[self.name]

    def describe(self) -> str:
        return _(POSITIONS[self.name])

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Arithmetic(Term):
    """The sum, difference, product, floor quotient or remainder of two terms; remainders have the divisor's sign."""

    sign: ArithmeticSign
    left: Term
    right: Term

    def value(self, positions: Mapping[str, Any]) -> Any:
        return OPERATIONS[self.sign](self.left.value(positions), self.right.value(positions))

    def parts(self) -> tuple["Term", ...]:
        return (self.left, self.right)

    def with_parts(self, *parts: Term) -> Term:
        return Arithmetic(self.sign, *parts)

    def bounds(self, ranges: Mapping[str, Bounds] = POSITION_BOUNDS) -> Bounds:
        (a, b), (c, d) = self.left.bounds(ranges), self.right.bounds(ranges)
        if self.sign in ("//", "%") and c <= 0 <= d:
            if c == d:
                raise value_error(
                    "{value} divides by 0. Write another number after {sign}, as in q {sign} 2.",
                    value=self,
                    sign=self.sign,
                )
            raise value_error("The divisor {right} may be 0. Write max({right}, 1) instead.", right=self.right)
        if self.sign == "%":
            # A remainder has the sign of the divisor, and what is smaller than the divisor stays as it is.
            if c > 0:
                return (a, b) if a >= 0 and b < c else (0, min(b, d - 1) if a >= 0 else d - 1)
            return (a, b) if b <= 0 and d < a else (max(a, c + 1) if b <= 0 else c + 1, 0)
        # The others are monotonic in each operand, so their bounds are at the bounds of the operands.
        ends = [OPERATIONS[self.sign](x, y) for x in (a, b) for y in (c, d)]
        combined = min(ends), max(ends)
        if max(map(abs, combined)) > INT64_MAX:
            raise value_error(
                "{value} can be too large to compute with. Use smaller numbers, or fewer products.", value=self
            )
        return combined

    def describe(self) -> str:
        if self._is_negative():
            return _("minus {phrase}", phrase=_phrase(self.right))
        # “the query's position minus the key's” rather than “… minus the key's position”.
        both = {self.left, self.right} == {Variable("q"), Variable("k")}
        right = _phrase(self.right).removesuffix(" position" * both)
        return _(PHRASES[self.sign], left=_phrase(self.left), right=right)

    def _is_negative(self) -> bool:
        """Whether this is -x, which is stored as 0 - x; -5 is a number."""
        return self.sign == "-" and self.left == Number(0) and not isinstance(self.right, Number)

    def __str__(self) -> str:
        if self._is_negative():
            return f"-{_term_text(self.right, ATOM)}"
        # The right operand of a sign binds more tightly than the sign, or is written in parentheses.
        binds = PRECEDENCE[self.sign]
        return f"{_term_text(self.left, binds)} {self.sign} {_term_text(self.right, binds + 1)}"


@dataclass(frozen=True)
class Function(Term):
    """The absolute value of a term (abs), or the minimum (min) or maximum (max) of two."""

    name: Literal["abs", "min", "max"]
    arguments: tuple[Term, ...]

    def value(self, positions: Mapping[str, Any]) -> Any:
        values = [argument.value(positions) for argument in self.arguments]
        return abs(values[0]) if self.name == "abs" else OPERATIONS[self.name](*values)

    def parts(self) -> tuple["Term", ...]:
        return self.arguments

    def with_parts(self, *parts: Term) -> Term:
        return Function(self.name, parts)

    def bounds(self, ranges: Mapping[str, Bounds] = POSITION_BOUNDS) -> Bounds:
        inner = [argument.bounds(ranges) for argument in self.arguments]
        if self.name == "abs":
            ((least, greatest),) = inner
            return max(least, -greatest, 0), max(-least, greatest)
        choose = min if self.name == "min" else max
        return choose(least for least, _ in inner), choose(greatest for _, greatest in inner)

    def describe(self) -> str:
        if self.name == "abs":
            (inside,) = self.arguments
            if isinstance(inside, Arithmetic) and inside.sign == "-" and set(map(str, inside.parts())) == {"q", "k"}:
                return _("the distance between the query and the key")
            return _("the absolute value of {phrase}", phrase=_phrase(inside))
        terms = list(map(_phrase, self._flat()))
        kind = {"min": (_("smaller"), _("smallest")), "max": (_("larger"), _("largest"))}[self.name][len(terms) > 2]
        return _("the {kind} of {terms}", kind=kind, terms=enumeration(terms))

    def _flat(self) -> tuple[Term, ...]:
        """The arguments of min(a, b, c), which is stored as min(min(a, b), c)."""
        first, *others = self.arguments
        nested = self.name != "abs" and isinstance(first, Function) and first.name == self.name
        return (*(first._flat() if nested and isinstance(first, Function) else (first,)), *others)

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self._flat()))})"


@dataclass(frozen=True)
class Lookup(Term):
    """An entry of a table. Only rules of the catalogue have tables; the language has none."""

    numbers: tuple[int, ...]
    index: Term

    def value(self, positions: Mapping[str, Any]) -> Any:
        return take(self.numbers, self.index.value(positions))

    def parts(self) -> tuple["Term", ...]:
        return (self.index,)

    def with_parts(self, *parts: Term) -> Term:
        return Lookup(self.numbers, *parts)

    def bounds(self, ranges: Mapping[str, Bounds] = POSITION_BOUNDS) -> Bounds:
        return min(self.numbers), max(self.numbers)

    def describe(self) -> str:
        return _(
            "the number at place {phrase} of a list of {count}", phrase=_phrase(self.index), count=len(self.numbers)
        )

    def __str__(self) -> str:
        return f"[{', '.join(map(str, self.numbers))}][{self.index}]"


def take(numbers: Sequence[int], index: Index) -> Index:
    """Returns entries of a list at these indices, which must be in range: a tensor, a symbol or an integer."""
    if isinstance(index, Tensor):
        return torch.from_numpy(np.asarray(numbers)).to(index.device)[index]  # type: ignore[return-value]
    if isinstance(index, int):
        return numbers[index]  # type: ignore[return-value]
    return index.take_from(tuple(numbers))  # type: ignore[attr-defined]


def _minimum(a: Any, b: Any) -> Any:
    if isinstance(a, int):
        return min(a, b) if isinstance(b, int) else b.clip(max=a)
    return a.clip(max=b)


def _maximum(a: Any, b: Any) -> Any:
    if isinstance(a, int):
        return max(a, b) if isinstance(b, int) else b.clip(min=a)
    return a.clip(min=b)


def _term_text(term: Term, least: int) -> str:
    """Returns a term's text, in parentheses if it binds less tightly than `least`; -x binds as tightly as x."""
    loose = isinstance(term, Arithmetic) and not term._is_negative() and PRECEDENCE[term.sign] < least
    return f"({term})" if loose else str(term)


def _phrase(term: Term) -> str:
    """Returns a term in English as part of a longer one."""
    single = isinstance(term, Number | Variable) or (isinstance(term, Function) and term.name == "abs")
    return term.describe() if single else f"({term.describe()})"
