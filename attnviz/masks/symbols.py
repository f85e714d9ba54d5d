"""Rules written down: a mask's rule as comparisons of terms, whatever class it is of.

A rule is Python on the positions b, h, q and k. Given tensors it computes; given symbols it writes itself down, and
from that follow the rule as text, the code to take away and the cost.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from attnviz.masks.mask import Combined, Compare, Mask, Not
from attnviz.masks.terms import Function, Number, Operation, Position, Sign, Table, Term


def rule(mask: Mask, queries: int, keys: int) -> Mask:
    """The mask for so many queries and keys, as And, Or and Not of comparisons."""
    return mask.bind(queries, keys, 1)(*(Symbol(Position(name)) for name in "bhqk"))


def terms_of(rule: Mask) -> Iterator[Term]:
    """All terms of a rule, from left to right, and those that each is made of before it."""
    match rule:
        case Combined(left, right):
            yield from terms_of(left)
            yield from terms_of(right)
        case Not(mask):
            yield from terms_of(mask)
        case Compare(terms):
            for term in terms:
                yield from term.inside()


class Symbol:
    """A position that is written down: what is done to it becomes a term, what it is compared with a mask."""

    def __init__(self, term: Term) -> None:
        self.term = term

    def __add__(self, other: Any) -> "Symbol":
        return _operation("+", self, other)

    def __radd__(self, other: Any) -> "Symbol":
        return _operation("+", other, self)

    def __sub__(self, other: Any) -> "Symbol":
        return _operation("-", self, other)

    def __rsub__(self, other: Any) -> "Symbol":
        return _operation("-", other, self)

    def __mul__(self, other: Any) -> "Symbol":
        return _operation("*", self, other)

    def __rmul__(self, other: Any) -> "Symbol":
        return _operation("*", other, self)

    def __floordiv__(self, other: Any) -> "Symbol":
        return _operation("//", self, other)

    def __mod__(self, other: Any) -> "Symbol":
        return _operation("%", self, other)

    def __rfloordiv__(self, other: Any) -> "Symbol":
        return _operation("//", other, self)

    def __rmod__(self, other: Any) -> "Symbol":
        return _operation("%", other, self)

    def __neg__(self) -> "Symbol":
        return _operation("-", 0, self)

    def __abs__(self) -> "Symbol":
        return Symbol(Function("abs", (self.term,)))

    def clamp(self, min: Any = None, max: Any = None) -> "Symbol":
        raised = self.term if min is None else Function("max", (self.term, _term(min)))
        return Symbol(raised if max is None else Function("min", (raised, _term(max))))

    clip = clamp  # as NumPy calls it, and torch too

    def found_in(self, numbers: Sequence[int]) -> "Symbol":
        return Symbol(Table(tuple(numbers), self.term))

    def __lt__(self, other: Any) -> Compare:
        return Compare((self.term, _term(other)), ("<",))

    def __le__(self, other: Any) -> Compare:
        return Compare((self.term, _term(other)), ("<=",))

    def __gt__(self, other: Any) -> Compare:
        return Compare((self.term, _term(other)), (">",))

    def __ge__(self, other: Any) -> Compare:
        return Compare((self.term, _term(other)), (">=",))

    def __eq__(self, other: Any) -> Compare:  # type: ignore[override]
        return Compare((self.term, _term(other)), ("==",))

    def __ne__(self, other: Any) -> Compare:  # type: ignore[override]
        return Compare((self.term, _term(other)), ("!=",))

    __hash__ = None  # type: ignore[assignment]


def _operation(sign: Sign, left: Any, right: Any) -> Symbol:
    return Symbol(Operation(sign, _term(left), _term(right)))


def _term(value: Any) -> Term:
    return value.term if isinstance(value, Symbol) else Number(int(value))
