"""The normal form of a rule: conjunctions and disjunctions of comparisons of one term with 0."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from itertools import chain
from math import inf, lcm

import numpy as np

from attnviz.base.language import _
from attnviz.masks.comparisons import COMPARISONS, OPPOSITE, ComparisonSign
from attnviz.masks.cost.monotonicity import ArrayLookup, cases, of_distance, period, value
from attnviz.masks.mask import And, Combined, Compare, Mask, Not, rule
from attnviz.masks.terms import Arithmetic, Bounds, Function, Lookup, Number, Term, Variable


class UnstructuredRule(Exception):
    """A rule whose rows cannot be split into intervals. The message continues the sentence “the rule of this mask”."""


@dataclass(frozen=True, eq=False)
class RuleGroup:
    """Rules that must all hold, or at least one of them."""

    every: bool
    rules: "tuple[RuleGroup | Compare, ...]"


NormalForm = RuleGroup | Compare  # a comparison is of one term with 0


def normal_form(mask: Mask, queries: int, keys: int, head: int) -> NormalForm:
    """Returns the normal form of the rule of one head of a mask for these numbers of queries and keys.

    Raises UnstructuredRule if it is not made of terms, and ValueError if a divisor may be 0 or a number may need more
    than 64 bits.
    """
    try:
        written = rule(mask, queries, keys)
    except (TypeError, AttributeError, IndexError):
        raise UnstructuredRule(_("is not written as comparisons of whole numbers")) from None
    ranges = {"b": (0, 0), "h": (head, head), "q": (0, queries - 1), "k": (0, keys - 1)}
    return _ordered(_grouped(written, ranges), queries, keys)


def _grouped(rule: Mask, ranges: Mapping[str, Bounds], positive: bool = True) -> NormalForm:
    """Returns a rule as groups of comparisons of one term with 0; its negation if not `positive`."""
    match rule:
        case Not(inner):
            return _grouped(inner, ranges, not positive)
        case Combined(left, right):
            return _group(
                isinstance(rule, And) == positive, (_grouped(part, ranges, positive) for part in (left, right))
            )
        case Compare(terms, signs):
            signs = signs if positive else tuple(OPPOSITE[sign] for sign in signs)
            compared = zip(terms, terms[1:], signs, strict=False)
            return _group(positive, (_compared_with_zero(left, right, sign, ranges) for left, right, sign in compared))
    raise UnstructuredRule(_("is not written as comparisons of whole numbers"))


def _group(every: bool, rules: Iterable[NormalForm]) -> NormalForm:
    """Returns a group of rules, merged with inner groups of the same kind."""
    flat: list[NormalForm] = []
    for one in rules:
        flat += one.rules if isinstance(one, RuleGroup) and one.every == every else (one,)
    return flat[0] if len(flat) == 1 else RuleGroup(every, tuple(flat))


def _compared_with_zero(left: Term, right: Term, sign: ComparisonSign, ranges: Mapping[str, Bounds]) -> Compare:
    """Returns a comparison of two terms as one of their difference with 0."""
    term = left if right == Number(0) else Arithmetic("-", left, right)
    for part in term.subterms():
        # The arguments of min and max are compared as their difference, too.
        (cases(part)[0] if isinstance(part, Function) else part).bounds(ranges)
    return Compare((_folded(term, ranges), Number(0)), (sign,))


def _folded(term: Term, ranges: Mapping[str, Bounds]) -> Term:
    """Returns a term with constants folded, and tables as arrays."""
    if isinstance(term, Variable):
        least, greatest = ranges[term.name]
        return Number(least) if least == greatest else term
    parts = [_folded(part, ranges) for part in term.parts()]
    if parts and all(isinstance(part, Number) for part in parts):
        return Number(term.with_parts(*parts).value({}))
    return (
        ArrayLookup.from_numbers(np.array(term.numbers), *parts)
        if isinstance(term, Lookup)
        else term.with_parts(*parts)
    )


def _ordered(rule: NormalForm, queries: int, keys: int) -> NormalForm:
    """Returns the rule ordered for splitting: first what depends on the query alone, then what depends on the distance
    alone, last what depends on the key alone, each merged into one table.

    So a list of positions, each compared with the key, splits a row once, and so does a list of distances. Periodic
    rules come after others, and those with short periods last, when few intervals are left.
    """
    if isinstance(rule, Compare):
        return rule
    query, key, distance = np.arange(queries), np.arange(keys), np.arange(1 - keys, queries)
    q, k = Variable("q"), Variable("k")
    from_0 = Arithmetic("+", Arithmetic("-", q, k), Number(keys - 1))
    by_query, by_distance, by_key = (
        _Table(q, query, query),
        _Table(from_0, distance.clip(0), (-distance).clip(0)),
        _Table(k, key, key),
    )
    others: list[NormalForm] = []
    for one in (_ordered(one, queries, keys) for one in rule.rules):
        names = frozenset().union(*(term.names for term in terms(one)))
        if "k" not in names:
            by_query.rules.append(one)
        elif _shortest(one) < inf:
            others.append(one)
        elif "q" not in names:
            by_key.rules.append(one)
        else:
            (by_distance.rules if all(map(of_distance, terms(one))) else others).append(one)
    others += by_distance.merged(rule.every)
    return RuleGroup(
        rule.every,
        (*by_query.merged(rule.every), *sorted(others, key=_shortest, reverse=True), *by_key.merged(rule.every)),
    )


@dataclass
class _Table:
    """Rules that depend on one number alone, and the queries and keys at which it has each of its values."""

    index: Term
    query: np.ndarray
    key: np.ndarray
    rules: list[NormalForm] = field(default_factory=list)

    def merged(self, every: bool) -> list[NormalForm]:
        """Returns the rules; several as one that looks up the number."""
        if len(self.rules) < 2:
            return self.rules
        allowed = allows(RuleGroup(every, tuple(self.rules)), self.query, self.key).astype(int)
        return [Compare((ArrayLookup.from_numbers(allowed, self.index), Number(0)), ("!=",))]


def allows(rule: NormalForm, query: np.ndarray, key: np.ndarray | int) -> np.ndarray:
    """Returns whether a rule allows these pairs of queries and keys."""
    if isinstance(rule, Compare):
        holds = COMPARISONS[rule.signs[0]](value(rule.terms[0], query, key), 0)
        return np.broadcast_to(holds, query.shape)
    combined = np.logical_and if rule.every else np.logical_or
    return reduce(combined, (allows(one, query, key) for one in rule.rules))


def comparisons(rule: NormalForm) -> Iterator[Compare]:
    """Yields the comparisons of a rule."""
    if isinstance(rule, Compare):
        yield rule
    else:
        yield from chain.from_iterable(map(comparisons, rule.rules))


def terms(rule: NormalForm) -> Iterator[Term]:
    """Yields the terms that a rule compares with 0."""
    return (one.terms[0] for one in comparisons(rule))


def common_period(rule: NormalForm, keys: int) -> int:
    """Returns the common period of the terms of a rule that fit within the keys; the number of keys if there is
    none."""
    common = 1
    for size in sorted(set(map(period, terms(rule))) - {0}):
        if lcm(common, size) <= keys:
            common = lcm(common, size)
    return keys if common == 1 else common


def _shortest(rule: NormalForm) -> int | float:
    """Returns the shortest period of the terms of a rule."""
    return min((size for size in map(period, terms(rule)) if size > 1), default=inf)
