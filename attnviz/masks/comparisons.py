"""Comparisons of two terms: their signs, and their descriptions in English."""

from collections.abc import Callable
from operator import eq, ge, gt, le, lt, ne
from typing import Any, Literal

from attnviz.masks.terms import Number, Term, Variable

ComparisonSign = Literal["<", "<=", "==", "!=", ">=", ">"]
COMPARISONS: dict[ComparisonSign, Callable[[Any, Any], Any]] = {
    "<": lt, "<=": le, "==": eq, "!=": ne, ">=": ge, ">": gt
}  # fmt: skip
OPPOSITE: dict[ComparisonSign, ComparisonSign] = {"<": ">=", "<=": ">", "==": "!=", "!=": "==", ">=": "<", ">": "<="}
MIRRORED: dict[ComparisonSign, ComparisonSign] = {"<": ">", "<=": ">=", "==": "==", "!=": "!=", ">=": "<=", ">": "<"}
PHRASES = {
    "<": "is less than", "<=": "is at most", "==": "is", "!=": "is not", ">=": "is at least", ">": "is more than"
}  # fmt: skip
KEY_AND_QUERY = {
    "<": "is before it",
    "<=": "is not after it",
    "==": "is at the same position",
    "!=": "is not at the same position",
    ">=": "is not before it",
    ">": "is after it",
}
OWNERS = {"q": "the query", "k": "the key", "h": "the head"}


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
        return f"the key {KEY_AND_QUERY[sign]}"
    if isinstance(right, Number) and isinstance(left, Variable) and left.name in OWNERS:
        # Positions count from 0, so that the first 3 are those below 3.
        count = right.number + (sign in ("<=", ">"))
        one, several = ("is", "is one of") if sign in ("<", "<=") else ("is not", "is not one of")
        if sign in ("<", "<=", ">", ">=") and count >= 1:
            return f"{OWNERS[left.name]} {one if count == 1 else several} the first" + f" {count}" * (count > 1)
    return f"{left.describe()} {describe_limit(sign, right)}"


def describe_limit(sign: ComparisonSign, right: Term) -> str:
    """Returns a comparison in English without its left side, such as “is at most 4”."""
    return f"{PHRASES[sign]} {right.describe()}"
