"""The keys that a query sees under a mask, as ranges of positions and in words."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise
from math import inf

from attnviz.formatting import enumeration
from attnviz.language import _, plural
from attnviz.masks.comparisons import MIRRORED, OPPOSITE, ComparisonSign
from attnviz.masks.mask import And, Compare, Mask, Not, Or, Symbol
from attnviz.masks.terms import Arithmetic, Function, Number, Term, Variable

MOST_RANGES = 4  # that a sentence names
Linear = tuple[int, int, int]  # c, a, b of c + a q + b k


@dataclass(frozen=True)
class KeyRange:
    """The keys k with low ≤ k − q ≤ high and first ≤ k ≤ last."""

    low: float = -inf
    high: float = inf
    first: float = 0
    last: float = inf

    def __and__(self, other: "KeyRange") -> "KeyRange":
        return KeyRange(
            max(self.low, other.low), min(self.high, other.high), max(self.first, other.first),
            min(self.last, other.last),
        )  # fmt: skip

    @property
    def is_empty(self) -> bool:
        return self.low > self.high or self.first > self.last

    def holds(self, other: "KeyRange") -> bool:
        """Returns whether each key of another range is in this one."""
        return self & other == other

    def in_words(self) -> list[str] | None:
        """Returns the keys as parts of an enumeration, as seen from a query; None if that takes a longer sentence."""
        if (self.first, self.last) == (0, inf):
            return _near_keys(self.low, self.high)
        if (self.low, self.high) == (-inf, inf) or (self.high == 0 and self.last == 0):  # no query is before key 0
            return [_keys_at(int(self.first), self.last)]
        if (self.low, self.high) == (-inf, 0) and self.last > self.first:
            return [_("{keys} that are not after it", keys=_keys_at(int(self.first), self.last))]
        return None


def seen_keys(mask: Mask) -> str | None:
    """Returns which keys a query sees, as an enumeration; None for a mask that is not a few ranges of positions.

    Example:
        >>> from attnviz.masks import parse
        >>> seen_keys(parse("causal & sliding_window(3) | sinks(1) & causal"))
        'itself, the 2 keys before it and the first key'
    """
    ranges = key_ranges(mask)
    if not ranges or len(ranges) > MOST_RANGES:
        return None
    words = [each.in_words() for each in sorted(ranges, key=lambda each: (each.first, each.last) != (0, inf))]
    return None if None in words else enumeration([word for each in words for word in each or ()])


def key_ranges(mask: Mask) -> list[KeyRange] | None:
    """Returns ranges whose union is what a query sees, none within another; None for another mask."""
    try:
        rule = mask(*(Symbol(Variable(name)) for name in "bhqk")).mask
    except (ValueError, TypeError, AttributeError):  # it depends on the lengths, or takes tensors alone
        return None
    ranges = _ranges(rule)
    return None if ranges is None else _joined(ranges)


def _ranges(rule: Mask) -> list[KeyRange] | None:
    match rule:
        case And(left, right):
            sides = _ranges(left), _ranges(right)
            if sides[0] is None or sides[1] is None or len(sides[0]) * len(sides[1]) > MOST_RANGES**2:
                return None
            return [one & other for one in sides[0] for other in sides[1]]
        case Or(left, right):
            sides = _ranges(left), _ranges(right)
            return None if sides[0] is None or sides[1] is None else [*sides[0], *sides[1]]
        case Not(And(left, right)):
            return _ranges(Or(Not(left), Not(right)))
        case Not(Or(left, right)):
            return _ranges(And(Not(left), Not(right)))
        case Not(Not(inner)):
            return _ranges(inner)
        case Not(Compare(terms, (sign,))):
            return _compared(*terms, OPPOSITE[sign])
        case Not(Compare()):
            return None
        case Compare(terms, signs):
            compared = [_compared(*pair, sign) for pair, sign in zip(pairwise(terms), signs, strict=True)]
            if any(each is None for each in compared):
                return None
            return reduce(lambda one, other: [a & b for a in one for b in other], filter(None, compared), [KeyRange()])
    return None


def _compared(left: Term, right: Term, sign: ComparisonSign) -> list[KeyRange] | None:
    """Returns the ranges in which a comparison holds; None if they are not of k or of k − q."""
    if isinstance(right, Function):
        left, right, sign = right, left, MIRRORED[sign]
    if isinstance(left, Function):
        (inside, *_others), limit = left.arguments, right
        if left.name != "abs" or sign not in ("<", "<=") or not isinstance(limit, Number):
            return None
        sides = _compared(inside, limit, sign), _compared(Number(-limit.number), inside, sign)
        return None if not sides[0] or not sides[1] else [sides[0][0] & sides[1][0]]
    both = _linear(left), _linear(right)
    if both[0] is None or both[1] is None:
        return None
    constant, queries, keys = (one - other for one, other in zip(*both, strict=True))
    if keys < 0:
        constant, queries, keys, sign = -constant, -queries, -keys, MIRRORED[sign]
    if keys != 1 or queries not in (0, -1):
        return None
    # k + constant or k − q + constant, compared with 0
    limits: dict[ComparisonSign, list[tuple[float, float]]] = {
        "<": [(-inf, -1)], "<=": [(-inf, 0)], "==": [(0, 0)], "!=": [(-inf, -1), (1, inf)], ">=": [(0, inf)],
        ">": [(1, inf)],
    }  # fmt: skip
    shifted = [(low - constant, high - constant) for low, high in limits[sign]]
    if queries:
        return [KeyRange(low, high) for low, high in shifted]
    return [KeyRange(first=max(low, 0), last=high) for low, high in shifted]


def _linear(term: Term) -> Linear | None:
    """Returns a term as a sum of a number and multiples of q and k; None for another one."""
    match term:
        case Number(number):
            return number, 0, 0
        case Variable("q"):
            return 0, 1, 0
        case Variable("k"):
            return 0, 0, 1
        case Arithmetic("+" | "-" as sign, left, right):
            both = _linear(left), _linear(right)
            if both[0] is None or both[1] is None:
                return None
            by = 1 if sign == "+" else -1
            c, a, b = (one + by * other for one, other in zip(*both, strict=True))
            return c, a, b
    return None


def _joined(ranges: Iterable[KeyRange]) -> list[KeyRange]:
    """Returns ranges without those that are empty or within others, and with neighbors as one."""
    kept: list[KeyRange] = []
    for each in sorted({each for each in ranges if not each.is_empty}, key=lambda each: (each.low, -each.high)):
        neighbor = next((i for i, one in enumerate(kept) if _touch(one, each)), None)
        if neighbor is not None:
            kept[neighbor] = replace(kept[neighbor], high=max(kept[neighbor].high, each.high))
        else:
            kept.append(each)
    return [each for each in kept if not any(other != each and other.holds(each) for other in kept)]


def _touch(one: KeyRange, other: KeyRange) -> bool:
    return (one.first, one.last) == (other.first, other.last) and other.low <= one.high + 1


# In words


def _near_keys(low: float, high: float) -> list[str] | None:
    if (low, high) == (-inf, inf):
        return [_("every key")]
    if low > 0 or high < 0:
        near, far = (low, high) if low > 0 else (-high, -low)
        words = _keys_ahead(near, far) if low > 0 else _keys_behind(near, far)
        return [words]
    if low == -high and high not in (0, inf):
        return [_("itself"), plural("{count} key on either side", "{count} keys on either side", high, count=int(high))]
    behind, ahead = _keys_behind(1, -low) if low < 0 else "", _keys_ahead(1, high) if high > 0 else ""
    return [_("itself"), *filter(None, (behind, ahead))]


def _keys_behind(near: float, far: float) -> str:
    if near > 1 and far == inf:
        return _("all keys at least {near} positions before it", near=int(near))
    if near == far > 1:
        return _("the key {near} positions before it", near=int(near))
    if near > 1:
        return _("the keys from {near} to {far} positions before it", near=int(near), far=int(far))
    if far == inf:
        return _("all keys before it")
    return plural("the key before it", "the {count} keys before it", int(far), count=int(far))


def _keys_ahead(near: float, far: float) -> str:
    if near > 1 and far == inf:
        return _("all keys at least {near} positions after it", near=int(near))
    if near == far > 1:
        return _("the key {near} positions after it", near=int(near))
    if near > 1:
        return _("the keys from {near} to {far} positions after it", near=int(near), far=int(far))
    if far == inf:
        return _("all keys after it")
    return plural("the key after it", "the {count} keys after it", int(far), count=int(far))


def _keys_at(first: int, last: float) -> str:
    if last == inf:
        return plural("all keys but the first", "all keys but the first {count}", first, count=first)
    count = int(last) - first + 1
    if first == 0:
        return plural("the first key", "the first {count} keys", count, count=count)
    return plural("key {first}", "keys {first} to {last}", count, first=first, last=int(last))
