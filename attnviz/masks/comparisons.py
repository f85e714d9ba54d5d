"""Comparisons of two terms: their signs, and their descriptions in English."""

from collections.abc import Callable
from operator import eq, ge, gt, le, lt, ne
from typing import Any, Literal, TypeAlias

from attnviz.base.language import N_, _, plural
from attnviz.masks.terms import Number, Term, Variable

ComparisonSign = Literal["<", "<=", "==", "!=", ">=", ">"]
Comparison: TypeAlias = Callable[[Any, Any], Any]
COMPARISONS: dict[ComparisonSign, Comparison] = {"<": lt, "<=": le, "==": eq, "!=": ne, ">=": ge, ">": gt}
OPPOSITE: dict[ComparisonSign, ComparisonSign] = {"<": ">=", "<=": ">", "==": "!=", "!=": "==", ">=": "<", ">": "<="}
MIRRORED: dict[ComparisonSign, ComparisonSign] = {"<": ">", "<=": ">=", "==": "==", "!=": "!=", ">=": "<=", ">": "<"}
PHRASES = {
    "<": N_("is less than"),
    "<=": N_("is at most"),
    "==": N_("is"),
    "!=": N_("is not"),
    ">=": N_("is at least"),
    ">": N_("is more than"),
}
KEY_AND_QUERY = {
    "<": N_("the key is before it"),
    "<=": N_("the key is not after it"),
    "==": N_("the key is at the same position"),
    "!=": N_("the key is not at the same position"),
    ">=": N_("the key is not before it"),
    ">": N_("the key is after it"),
}
OWNERS = {"q": N_("the query"), "k": N_("the key"), "h": N_("the head")}


def describe_comparison(left: Term, sign: ComparisonSign, right: Term) -> str:
    """Returns a comparison in English.

    Example:
        >>> describe_comparison(Variable("k"), "<", Number(3))
        'the key is one of the first 3'
    """
    q, k = Variable("q"), Variable("k")
    if isinstance(left, Number) or (left, right) == (q, k):
        left, sign, right = right, MIRRORED[sign], left
    if (left, right) == (k, q):
        return _(KEY_AND_QUERY[sign])
    if isinstance(right, Number) and isinstance(left, Variable) and left.name in OWNERS:
        # Positions count from 0, so that the first 3 are those below 3.
        count = right.number + (sign in ("<=", ">"))
        inside = sign in ("<", "<=")
        if sign in ("<", "<=", ">", ">=") and count >= 1:
            values = {"owner": _(OWNERS[left.name]), "count": count}
            if inside:
                return plural("{owner} is the first", "{owner} is one of the first {count}", count, **values)
            return plural("{owner} is not the first", "{owner} is not one of the first {count}", count, **values)
    return f"{left.describe()} {describe_limit(sign, right)}"


def describe_limit(sign: ComparisonSign, right: Term) -> str:
    """Returns a comparison in English without its left side, such as “is at most 4”."""
    return f"{_(PHRASES[sign])} {right.describe()}"
