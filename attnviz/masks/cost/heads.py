"""Heads of a mask that share one rule, so that each rule is counted once."""

from collections.abc import Iterator

from attnviz.masks.mask import Combined, Compare, Mask, Not, rule
from attnviz.masks.terms import Term

HEAD = frozenset({"h"})


def heads_by_rule(mask: Mask, queries: int, keys: int, heads: int) -> list[tuple[int, ...]]:
    """Returns the heads in groups: those of a group have the same rule, because all that depends on the head alone has
    the same value in them.

    A rule that cannot be written down may be another in each head. Raises ValueError if a divisor may be 0.

    Example:
        >>> from attnviz.masks import parse
        >>> heads_by_rule(parse("causal & (q - k < 4 | h % 2 == 0)"), 8, 8, 4)
        [(0, 2), (1, 3)]
    """
    try:
        parts = list(_head_parts(rule(mask, queries, keys)))
    except (TypeError, AttributeError, IndexError):
        return [(head,) for head in range(heads)]
    groups: dict[tuple[object, ...], tuple[int, ...]] = {}
    for head in range(heads):
        values = tuple(_value(part, head) for part in parts)
        groups[values] = (*groups.get(values, ()), head)
    return list(groups.values())


def _head_parts(rule: Mask) -> Iterator[Compare | Term]:
    """Yields the largest parts of a rule that depend on the head alone."""
    match rule:
        case Combined(left, right):
            yield from _head_parts(left)
            yield from _head_parts(right)
        case Not(inner):
            yield from _head_parts(inner)
        case Compare(terms) if frozenset().union(*(term.names for term in terms)) == HEAD:
            yield rule
        case Compare(terms):
            for term in terms:
                yield from _head_terms(term)


def _head_terms(term: Term) -> Iterator[Term]:
    if term.names == HEAD:
        yield term
    elif term.names > HEAD:
        for part in term.parts():
            yield from _head_terms(part)


def _value(part: Compare | Term, head: int) -> object:
    at_head = {"h": (head, head)}
    if isinstance(part, Term):
        part.bounds(at_head)
        return part.value({"h": head})
    for term in part.terms:
        term.bounds(at_head)
    return part(0, head, 0, 0)  # type: ignore[type-var]
