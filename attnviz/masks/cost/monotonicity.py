"""How a term changes along the keys: constant parts, linearity, periods and bends."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from math import lcm
from typing import Any

import numpy as np

from attnviz.masks.terms import Arithmetic, Function, Number, Term, Variable


@dataclass(frozen=True, eq=False)
class ArrayLookup(Term):
    """A table as an array, with the places where it turns between rising and falling."""

    numbers: np.ndarray
    turns: np.ndarray  # 0, and the places where it turns
    turned: np.ndarray  # how often it has turned at each place
    index: Term

    @classmethod
    def from_numbers(cls, numbers: np.ndarray, index: Term) -> "ArrayLookup":
        steps = np.sign(np.diff(numbers))
        moving = np.flatnonzero(steps)
        is_turn = steps[moving[1:]] != steps[moving[:-1]]
        # Of two values each step is a turn: what lies between is constant, and nothing more is searched in it.
        turns = np.append(0, (moving if np.ptp(numbers) == 1 else moving[1:][is_turn]) + 1)
        return cls(numbers, turns, np.bincount(turns[1:], minlength=numbers.size).cumsum(), index)

    def value(self, positions: Mapping[str, Any]) -> Any:
        return self.numbers.take(self.index.value(positions))

    def parts(self) -> tuple[Term, ...]:
        return (self.index,)

    def with_parts(self, *parts: Term) -> Term:
        return ArrayLookup(self.numbers, self.turns, self.turned, *parts)

    def __str__(self) -> str:
        return f"[…][{self.index}]"


def value(term: Term, query: np.ndarray, key: np.ndarray | int) -> Any:
    """Returns the value of a term at these positions."""
    return term.value({"q": query, "k": key})


def query_parts(term: Term) -> Iterator[Term]:
    """Yields the largest parts of a term that do not depend on the key."""
    if "k" in term.names:
        yield from chain.from_iterable(map(query_parts, term.parts()))
    else:
        yield term


def linear(term: Term) -> bool:
    """Returns whether a term is linear in the key."""
    if isinstance(term, Variable) or "k" not in term.names:
        return True
    if not isinstance(term, Arithmetic) or term.sign not in ("+", "-", "*"):
        return False
    square = term.sign == "*" and all("k" in part.names for part in term.parts())
    return not square and all(map(linear, term.parts()))


def slope(term: Term) -> tuple[int, int] | None:
    """Returns what a linear term gains with each query and with each key; None of any other term."""
    match term:
        case Number():
            return 0, 0
        case Variable(name):
            return int(name == "q"), int(name == "k")
        case Arithmetic("*", Number(factor), other) | Arithmetic("*", other, Number(factor)):
            return None if (one := slope(other)) is None else (factor * one[0], factor * one[1])
        case Arithmetic("+" | "-" as sign, left, right) if (first := slope(left)) and (second := slope(right)):
            step = 1 if sign == "+" else -1
            return first[0] + step * second[0], first[1] + step * second[1]
    return None


def of_distance(term: Term) -> bool:
    """Returns whether a term is a function of q − k."""
    if (gains := slope(term)) is not None:
        return sum(gains) == 0
    return bool(term.parts()) and all(map(of_distance, term.parts()))


def period(term: Term, size: int = 0) -> int:
    """Returns the number of keys after which a term, or its remainder by a size, repeats; 0 if it does not."""
    match term:
        case Variable("k"):
            return size
        case Arithmetic("%", left, Number(number)):
            return period(left, number)
        case Arithmetic("//" | "%") | ArrayLookup():
            size = 0
    return lcm(*(period(part, size) for part in term.parts()))


def bend(term: Term) -> Function | None:
    """Returns a part of a term that is not monotonic along the keys: abs, min or max."""
    return next((part for part in term.subterms() if isinstance(part, Function) and "k" in part.names), None)


def cases(bend: Function) -> tuple[Term, Term, Term]:
    """Returns a condition term, and the terms that equal the function where the condition is ≥ 0 and where it is <
    0."""
    if bend.name == "abs":
        (inside,) = bend.arguments
        return inside, inside, Arithmetic("-", Number(0), inside)
    first, other = bend.arguments
    return (Arithmetic("-", first, other), *((first, other) if bend.name == "max" else (other, first)))


def replaced(term: Term, old: Term, new: Term) -> Term:
    """Returns a term with one of its parts replaced."""
    return new if term is old else term.with_parts(*(replaced(part, old, new) for part in term.parts()))
