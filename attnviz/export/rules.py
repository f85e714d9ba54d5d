"""The code of a mask's rule, for torch and NumPy."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from operator import and_

from attnviz.base.cached_property import cached_property
from attnviz.export.layout import COLUMNS, Library, Target, array_definition, indented
from attnviz.masks.comparisons import COMPARISONS, OPPOSITE
from attnviz.masks.mask import And, Combined, Compare, Mask, Not, Or, rule, terms_in
from attnviz.masks.terms import (
    ATOM,
    INT64_MAX,
    POSITION_BOUNDS,
    PRECEDENCE,
    Arithmetic,
    Bounds,
    Function,
    Lookup,
    Number,
    Term,
    Variable,
)

MOST_NUMBERS = 2**18  # in lists
POSITIONS = {"b": "b", "h": "h", "q": "q_idx", "k": "kv_idx"}
ALWAYS, NEVER = (Compare((Variable("q"), Number(0)), (sign,)) for sign in (">=", "<"))


@dataclass(frozen=True)
class MaskCode:
    """The code of a mask: its rule, simplified."""

    mask: Mask
    library: Library

    @cached_property
    def positions(self) -> set[str]:
        """The names of the positions that the rule uses, of b, h, q and k."""
        return {name for term in terms_in(self.mask) for name in term.names}

    @cached_property
    def tables(self) -> dict[tuple[int, ...], str]:
        """The lists of numbers in the rule, and their names."""
        tables = list(dict.fromkeys(term.numbers for term in terms_in(self.mask) if isinstance(term, Lookup)))
        return {numbers: f"table_{i}" if len(tables) > 1 else "table" for i, numbers in enumerate(tables, 1)}

    def definitions(self) -> list[str]:
        """Returns the definitions of the lists, which stand above the functions. Raises ValueError for lists of too
        many numbers, as masks of long texts can have."""
        if (count := sum(map(len, self.tables))) > MOST_NUMBERS:
            raise ValueError(
                f"At this length the lists of this mask hold {count:,} numbers, and code has at most {MOST_NUMBERS:,}. "
                "Take fewer tokens."
            )
        return [array_definition(name, numbers, self.library) for numbers, name in self.tables.items()]

    def sizes(self, target: Target) -> str:
        """Returns the sizes for FlexAttention's create_block_mask: None for axes that the rule does not use."""
        heads = target.heads if "h" in self.positions else None
        return f"{1 if 'b' in self.positions else None}, {heads}, {target.queries}, {target.keys}"

    def lines(self, start: str) -> list[str]:
        """Returns the rule after `start`, on as many lines as it needs."""
        lines = self._spread(self.mask, COLUMNS - 4 - len(start))
        if len(lines) == 1:
            return [start + lines[0]]
        return [f"{start}(", *indented(self._spread(self.mask, COLUMNS - 8)), ")"]

    def _spread(self, mask: Mask, columns: int) -> list[str]:
        """Returns a mask on one line if it fits, else with each operand on its own."""
        whole = self._condition(mask)
        if len(whole) <= columns or not isinstance(mask, Combined):
            return [whole]
        lines: list[str] = []
        for part in mask.operands():
            inner = self._spread(part, columns - 4)
            inner = [self._enclosed(part)] if len(inner) == 1 else ["(", *indented(inner), ")"]
            lines += [f"{mask.SIGN} " * bool(lines) + inner[0], *inner[1:]]
        return lines

    def _condition(self, mask: Mask) -> str:
        match mask:
            case Combined():
                return f" {mask.SIGN} ".join(map(self._enclosed, mask.operands()))
            case Not(inner):
                return f"~({self._condition(inner)})"
            case Compare((left, right), (sign,)) if sign in COMPARISONS:
                return f"{self._term(left)} {sign} {self._term(right)}"
        raise ValueError(f"There is no code for the rule {mask!r}. Choose another mask.")

    def _enclosed(self, mask: Mask) -> str:
        """Returns a mask as an operand of & or |, which bind more tightly than comparisons."""
        return self._condition(mask) if isinstance(mask, Not) else f"({self._condition(mask)})"

    def _term(self, term: Term, least: int = 0) -> str:
        """Returns a term, in parentheses if it binds less tightly than `least`."""
        clamp = self.library.clamp
        match term:
            case Number(number):
                return str(int(number)) if number >= 0 or least < ATOM else f"({int(number)})"
            case Variable(name) if name in POSITIONS:
                return POSITIONS[name]
            case Arithmetic("-", Number(0), right):
                return f"(-{self._term(right, ATOM)})" if least > 1 else f"-{self._term(right, ATOM)}"
            case Arithmetic(sign, left, right) if sign in PRECEDENCE:
                binds = PRECEDENCE[sign]
                text = f"{self._term(left, binds)} {sign} {self._term(right, binds + 1)}"
                return f"({text})" if binds < least else text
            case Function("abs", (inside,)):
                return f"abs({self._term(inside)})"
            case Function("min", (Function("max", (inside, Number(low))), Number(high))):
                return f"{self._term(inside, ATOM)}.{clamp}(min={int(low)}, max={int(high)})"
            case Function("min", (inside, Number(high))):
                return f"{self._term(inside, ATOM)}.{clamp}(max={int(high)})"
            case Function("max", (inside, Number(low))):
                return f"{self._term(inside, ATOM)}.{clamp}(min={int(low)})"
            case Function("min" | "max" as name, (left, right)):
                return f"{self.library.name}.{name}imum({self._term(left)}, {self._term(right)})"
            case Lookup(numbers, index):
                return f"{self.tables[numbers]}[{self._term(index)}]"
        raise ValueError(f"There is no code for {term!r}. Choose another mask.")


def mask_code(mask: Mask, queries: int, keys: int, heads: int, library: Library) -> MaskCode | None:
    """Returns the code of a mask for these numbers of queries, keys and heads; None if it allows everything."""
    simple = _simple(rule(mask, queries, keys), {**POSITION_BOUNDS, "h": (0, heads - 1)})
    return None if simple == ALWAYS else MaskCode(simple, library)


def _simple(mask: Mask, ranges: Mapping[str, Bounds]) -> Mask:
    """Returns a rule without conditions that are always true, such as q >= 0."""
    match mask:
        case And(left, right):
            return _combined(And, _simple(left, ranges), _simple(right, ranges), ALWAYS, NEVER)
        case Or(left, right):
            return _combined(Or, _simple(left, ranges), _simple(right, ranges), NEVER, ALWAYS)
        case Not(inner):
            match _simple(inner, ranges):
                case Not(twice):
                    return twice
                case Compare(terms, (sign,)):
                    return Compare(terms, (OPPOSITE[sign],))
                case simple:
                    return Not(simple)
        case Compare(terms, (sign,)):
            match tuple(_plain(term, ranges) for term in terms):
                case Arithmetic("-", one, away), Arithmetic("-", other, same) if away == same:
                    return Compare((one, other), (sign,))
                case Variable(), Number(number) if number <= 0 and sign in (">=", "<"):
                    return ALWAYS if sign == ">=" else NEVER
                case plain:
                    return Compare(plain, (sign,))
        case Compare(terms, signs):
            several = (Compare(pair, (sign,)) for pair, sign in zip(pairwise(terms), signs, strict=True))
            return _simple(reduce(and_, several), ranges)
    return mask


def _combined(kind: type[And] | type[Or], left: Mask, right: Mask, nothing: Mask, everything: Mask) -> Mask:
    """Returns two rules as one, simplified if one of them is always true or always false."""
    if everything in (left, right):
        return everything
    if nothing in (left, right):
        return left if right == nothing else right
    return kind(left, right)


def _plain(term: Term, ranges: Mapping[str, Bounds]) -> Term:
    """Returns a term without operations that change nothing, such as + 0, and without table entries that are never
    looked up."""
    match term:
        case Arithmetic(sign, before, after):
            left, right = _plain(before, ranges), _plain(after, ranges)
            match sign, left, right:
                case "+", _, Number(number):
                    return _plus(left, number)
                case "-", _, Number(number):
                    return _plus(left, -number)
                case "+", Number(0), _:
                    return right
                case (("*" | "//"), _, Number(1)):
                    return left
                case "%", _, Number(number):
                    least, greatest = _bounds(left, ranges)
                    return left if least >= 0 and greatest < number else Arithmetic("%", left, right)
            return Arithmetic(sign, left, right)
        case Function("max", (inside, Number(low))) if _bounds(inside, ranges)[0] >= low:
            return _plain(inside, ranges)
        case Function("min", (inside, Number(high))) if _bounds(inside, ranges)[1] <= high:
            return _plain(inside, ranges)
        case Function():
            return term.with_parts(*(_plain(argument, ranges) for argument in term.arguments))
        case Lookup(numbers, place):
            index = _plain(place, ranges)
            return Lookup(numbers[: _bounds(index, ranges)[1] + 1], index)
    return term


def _plus(term: Term, number: int) -> Term:
    """Returns a term plus a number, which may be negative."""
    match term:
        case Arithmetic("+", inside, Number(before)):
            return _plus(inside, before + number)
        case Arithmetic("-", inside, Number(before)):
            return _plus(inside, number - before)
    return Arithmetic("+" if number > 0 else "-", term, Number(abs(number))) if number else term


def _bounds(term: Term, ranges: Mapping[str, Bounds]) -> Bounds:
    try:
        return term.bounds(ranges)
    except ValueError:  # it may be any number
        return -INT64_MAX, INT64_MAX
