"""The keys that a query sees under a rule of positions, as ranges and in words."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import reduce
from math import inf
from operator import and_
from typing import Any

from attnviz.base.formatting import enumeration
from attnviz.base.language import _, plural

MOST_RANGES = 4  # that a sentence names
MOST_COMBINED = 12  # of a part of a rule: of more nothing is said, and a long rule takes no time


@dataclass(frozen=True)
class KeyRange:
    """The keys k with low ≤ k − q ≤ high and first ≤ k ≤ last."""

    low: float = -inf
    high: float = inf
    first: float = 0
    last: float = inf

    def __and__(self, other: "KeyRange") -> "KeyRange":
        return KeyRange(
            max(self.low, other.low),
            min(self.high, other.high),
            max(self.first, other.first),
            min(self.last, other.last),
        )

    @property
    def is_empty(self) -> bool:
        return self.low > self.high or self.first > self.last

    def in_words(self) -> list[str] | None:
        """Returns the keys as parts of an enumeration, as seen from a query; None if that takes a longer sentence."""
        if (self.first, self.last) == (0, inf):
            return _near_keys(self.low, self.high)
        if (self.low, self.high) == (-inf, inf) or (self.high == 0 and self.last == 0):  # no query is before key 0
            return [_keys_at(int(self.first), self.last)]
        if (self.low, self.high) == (-inf, 0) and self.last > self.first:
            return [_("{keys} that are not after it", keys=_keys_at(int(self.first), self.last))]
        return None


class KeyRanges:
    """A union of ranges, which combines as masks do. Raises TypeError if there would be too many."""

    def __init__(self, ranges: Iterable[KeyRange]) -> None:
        self.ranges = _merged(ranges)
        if len(self.ranges) > MOST_COMBINED:
            raise TypeError(f"{len(self.ranges)} ranges are too many.")

    def __and__(self, other: "KeyRanges") -> "KeyRanges":
        if len(self.ranges) * len(other.ranges) > 4 * MOST_COMBINED:  # as many as a complement makes
            raise TypeError("These are too many ranges to be combined.")
        return KeyRanges(one & another for one in self.ranges for another in other.ranges)

    def __or__(self, other: "KeyRanges") -> "KeyRanges":
        return KeyRanges([*self.ranges, *other.ranges])

    def __invert__(self) -> "KeyRanges":
        return reduce(and_, map(_complement, self.ranges), KeyRanges([KeyRange()]))


@dataclass(frozen=True, eq=False)
class LinearPosition:
    """A number plus multiples of the positions of query, key and head. Comparisons give KeyRanges; what is not a range
    of keys raises TypeError."""

    number: int = 0
    queries: int = 0
    keys: int = 0
    heads: int = 0

    def __add__(self, other: "LinearPosition | int") -> "LinearPosition":
        other = other if isinstance(other, LinearPosition) else LinearPosition(other)
        return LinearPosition(
            self.number + other.number, self.queries + other.queries, self.keys + other.keys, self.heads + other.heads
        )

    __radd__ = __add__

    def __neg__(self) -> "LinearPosition":
        return LinearPosition(-self.number, -self.queries, -self.keys, -self.heads)

    def __sub__(self, other: "LinearPosition | int") -> "LinearPosition":
        return self + -other

    def __rsub__(self, other: int) -> "LinearPosition":
        return -self + other

    def __abs__(self) -> "AbsolutePosition":
        return AbsolutePosition(self)

    def __le__(self, other: "LinearPosition | int") -> KeyRanges:
        return (self - other)._not_positive()

    def __ge__(self, other: "LinearPosition | int") -> KeyRanges:
        return (-(self - other))._not_positive()

    def __lt__(self, other: "LinearPosition | int") -> KeyRanges:
        return self <= other - 1

    def __gt__(self, other: "LinearPosition | int") -> KeyRanges:
        return self >= other + 1

    def __eq__(self, other: Any) -> KeyRanges:  # type: ignore[override]
        return (self <= other) & (self >= other)

    def __ne__(self, other: Any) -> KeyRanges:  # type: ignore[override]
        return ~(self == other)

    def _not_positive(self) -> KeyRanges:
        """Returns the keys for which this is at most 0."""
        match self:
            case LinearPosition(number, 0, 1, 0):
                return KeyRanges([KeyRange(last=-number)])
            case LinearPosition(number, 0, -1, 0):
                return KeyRanges([KeyRange(first=max(number, 0))])
            case LinearPosition(number, -1, 1, 0):
                return KeyRanges([KeyRange(high=-number)])
            case LinearPosition(number, 1, -1, 0):
                return KeyRanges([KeyRange(low=number)])
            case LinearPosition(number, 0, 0, 0):
                return KeyRanges([KeyRange()] if number <= 0 else [])
            case LinearPosition(number, -1, 0, 0) if number <= 0:  # no query is before position 0
                return KeyRanges([KeyRange()])
        raise TypeError("This is not a range of keys.")


@dataclass(frozen=True, eq=False)
class AbsolutePosition:
    """The absolute value of a position, to be compared with numbers."""

    position: LinearPosition

    def __le__(self, other: int) -> KeyRanges:
        return (self.position <= other) & (self.position >= -other)

    def __gt__(self, other: int) -> KeyRanges:
        return ~(self <= other)

    def __lt__(self, other: int) -> KeyRanges:
        return self <= other - 1

    def __ge__(self, other: int) -> KeyRanges:
        return ~(self < other)

    def __eq__(self, other: Any) -> KeyRanges:  # type: ignore[override]
        return (self <= other) & (self >= other)

    def __ne__(self, other: Any) -> KeyRanges:  # type: ignore[override]
        return ~(self == other)


def keys_in_words(rule: Callable[..., Any]) -> str | None:
    """Returns which keys a query sees under a mask, or another rule of the positions b, h, q and k, as an enumeration;
    None if they are not a few ranges of positions.

    Example:
        >>> keys_in_words(lambda b, h, q, k: (k <= q) & (q - k < 3) | (k < 1))
        'itself, the 2 keys before it and the first key'
    """
    ranges = key_ranges(rule)
    if not ranges or len(ranges) > MOST_RANGES:
        return None
    words = [each.in_words() for each in sorted(ranges, key=lambda each: (each.first, each.last) != (0, inf))]
    return None if None in words else enumeration([word for each in words for word in each or ()])


def key_ranges(rule: Callable[..., Any]) -> list[KeyRange] | None:
    """Returns ranges of positions whose union is what a query sees under a rule, none within another; None if there are
    no such ranges."""
    head = LinearPosition(heads=1)
    try:
        allowed = rule(head, head, LinearPosition(queries=1), LinearPosition(keys=1))
    except (ValueError, TypeError, AttributeError, OverflowError):  # it depends on the lengths, or on other numbers
        return None
    return allowed.ranges if isinstance(allowed, KeyRanges) else None


def _complement(one: KeyRange) -> KeyRanges:
    outside = [KeyRange(last=one.first - 1)]
    outside += [KeyRange(high=one.low - 1)] * (one.low > -inf)
    outside += [KeyRange(low=one.high + 1)] * (one.high < inf)
    outside += [KeyRange(first=one.last + 1)] * (one.last < inf)
    return KeyRanges(outside)


def _merged(ranges: Iterable[KeyRange]) -> list[KeyRange]:
    """Returns ranges without those that are empty or within others, and with neighbors as one."""
    kept: list[KeyRange] = []
    for each in sorted({each for each in ranges if not each.is_empty}, key=lambda each: (each.low, -each.high)):
        neighbor = next((i for i, one in enumerate(kept) if _touch(one, each)), None)
        if neighbor is not None:
            kept[neighbor] = replace(kept[neighbor], high=max(kept[neighbor].high, each.high))
        else:
            kept.append(each)
    return [each for each in kept if not any(other != each and other & each == each for other in kept)]


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
        return [
            _("itself"),
            plural("{count} key on either side", "{count} keys on either side", int(high), count=int(high)),
        ]
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
