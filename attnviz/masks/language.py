"""A small language for masks: `causal & q - k < 4 | k < 2`.

A text is read by a tokenizer and a parser of its own, never by Python, so that it can be nothing but a mask. From loose
to tight:

    a | b, a or b          what at least one allows
    a & b, a and b         what both allow
    ~a, not a              what one does not allow
    x < y <= z             < <= == != >= >, chained as in mathematics
    x + y, x - y
    x * y, x // y, x % y   divided, rounding down, and the remainder of that
    -x
    12, abs(x), min(x, y), max(x, y), (…)
    q, k, h, n_q, n_k      the positions of query, key and head, and how many queries and keys there are
    causal, band(2), …     every mask of the catalogue, with its parameters in order or by name

A mask_mod of FlexAttention that is made of comparisons is read, too: `lambda b, h, q, kv: q >= kv`, or
`def causal(b, h, q_idx, kv_idx): return q_idx >= kv_idx`, with local names, comments and annotations. In it & and |
bind as in Python.

`str(mask)` writes what `parse` reads.
"""

import difflib
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import MISSING, Field, fields
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, NoReturn, get_args, get_origin, get_type_hints

from attnviz.masks.catalogue import MASKS
from attnviz.masks.comparisons import COMPARISONS
from attnviz.masks.grid import Bits, Grid
from attnviz.masks.lexer import MaskError, Token, tokens
from attnviz.masks.mask import PRECEDENCE as MASK_PRECEDENCE
from attnviz.masks.mask import And, Combined, Compare, Mask, Not, Or, Shifted, choice_word, snake_case
from attnviz.masks.mask_mod import MaskFunction, read_mask_mod
from attnviz.masks.synonyms import how_to_write
from attnviz.masks.terms import ATOM, POSITION_BOUNDS, Arithmetic, Bounds, Function, Number, Term, Variable
from attnviz.masks.terms import PRECEDENCE as TERM_PRECEDENCE

LONGEST = 80_000  # characters, as many as the largest grid takes
DEEPEST = 50  # parts inside each other, so that nothing that walks a mask runs out of stack
MOST = 500  # masks, comparisons, operations and numbers
MOST_LISTED = 4096  # numbers in a list
MOST_NUMBERS = 1 << 22  # in the tables of all masks together, which follow from their lists
NESTED = 3  # documents in documents: written down, a rule doubles with each
LARGEST = 1_000_000_000
POSITIONS = ("q", "k", "h", "n_q", "n_k")
FUNCTIONS: dict[str, Literal["abs", "min", "max"]] = {"abs": "abs", "min": "min", "max": "max"}
WORDS = {"and": "&", "or": "|", "not": "~"}
UNICODE = {"≤": "<=", "≥": ">=", "≠": "!=", "¬": "~", "∧": "&", "∨": "|", "−": "-"}
# How tightly a sign binds: those between masks, and then those between terms.
PRECEDENCE: dict[str, int] = {"|": MASK_PRECEDENCE[Or], "&": MASK_PRECEDENCE[And]}
PRECEDENCE |= dict.fromkeys(COMPARISONS, MASK_PRECEDENCE[Compare])
PRECEDENCE |= {sign: MASK_PRECEDENCE[Compare] + binds for sign, binds in TERM_PRECEDENCE.items()}
NOT, NEGATIVE = MASK_PRECEDENCE[Not], MASK_PRECEDENCE[Compare] + ATOM
HINTS = {
    "**": "Multiply instead, as in q * q.",
    "/": "Division rounds down and is written //.",
    "=": "To compare, write ==.",
    ":=": "To compare, write ==.",
    "<>": "Write !=.",
    "<<": "Multiply by 2, 4, 8, … instead.",
    ">>": "Divide by 2, 4, 8, … with // instead.",
    "&&": "Write & alone.",
    "||": "Write | alone.",
    "!": "Write ~ for “not”.",
    "^": "For “one but not both”, write a & ~b | b & ~a.",
    "{": "Lists stand in [ and ].",
}
PYTHON_HINTS = {
    ".": "Methods are not read. Write abs(x), min(x, y) or max(x, y) as functions.",
    "if": "Join conditions with &, | and ~, as in (h < 2) & (q >= kv) | (h >= 2).",
}


def parse(text: str) -> Mask:
    """Returns the mask that a text describes.

    Raises MaskError, with the position, if the text is no mask, or is too long, too deep or too large to compute with.

    Example:
        >>> parse("sliding_window(2) | k < 1").matrix(3, 3).long()
        tensor([[1, 0, 0],
                [1, 1, 0],
                [1, 1, 1]])
        >>> parse("causal & q < ")
        Traceback (most recent call last):
        ...
        attnviz.masks.lexer.MaskError: At the end: The text ends where a mask, such as causal, or a number, ...
    """
    if len(text) > LONGEST:
        raise MaskError(text, LONGEST, f"A mask has at most {LONGEST:,} characters; this text has {len(text):,}.")
    return _Parser(text).whole()


@cache
def names() -> dict[str, type[Mask]]:
    """Returns the masks that the language can name."""
    return {snake_case(kind): kind for kind in (*MASKS, Grid, Shifted)}


class _Parsed(NamedTuple):
    """A parsed part of the text."""

    expression: Mask | Term
    start: int
    height: int  # how many parts stand inside each other in it
    is_enclosed: bool = False  # whether it stands in parentheses


class _Value(NamedTuple):
    """What a name stands for, how many parts it has, and how many numbers in tables."""

    piece: _Parsed
    parts: int
    numbers: int


class _Parser:
    """Parses from left to right, by precedence climbing."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.positions = {name: name for name in POSITIONS}  # and what they stand for
        self.values: dict[str, _Value] = {}  # of the names that a mask_mod assigns
        self.mask_mod = read_mask_mod(text)
        self.depth = self.count = self.numbers = 0

    def whole(self) -> Mask:
        if self.mask_mod:
            return self.result(self.mask_mod)
        return self.mask(self.read(tokens(self.text)))

    def result(self, mask_mod: MaskFunction) -> Mask:
        """Parses what a mask_mod returns; its parameters mean b, h, q and k, whatever their names."""
        for name, words in mask_mod.constants:
            self.assign(name, words)
        self.positions |= dict(zip(mask_mod.parameters, "bhqk", strict=True))
        for name in mask_mod.parameters:
            self.values.pop(name, None)
        for name, words in mask_mod.names:
            self.assign(name, words)
        return self.mask(self.read(iter(mask_mod.result)))

    def assign(self, name: str, words: Iterable[Token]) -> None:
        before = self.count, self.numbers
        self.count = self.numbers = 0
        self.values[name] = _Value(self.read(iter(words)), self.count, self.numbers)
        self.count, self.numbers = before

    def read(self, words: Iterator[Token]) -> _Parsed:
        """Parses an expression that takes all of these words."""
        self.tokens = words
        self.token = next(self.tokens)
        self.later = next(self.tokens, self.token)
        if self.token.kind == "end":
            self.refuse("There is nothing here yet. Write a mask, such as causal or q - k < 4.")
        piece = self.expression()
        if self.token.kind != "end":
            self.unexpected("an operator, such as & or |, or the end")
        return piece

    def expression(self, binding: int = 1) -> _Parsed:
        """Parses up to an operator that binds less tightly than `binding`."""
        self.depth += 1
        if self.depth > DEEPEST:
            self.refuse(f"More than {DEEPEST} parts stand inside each other here. Write the mask more simply.")
        piece = self.operand()
        while PRECEDENCE.get(sign := self.sign(), 0) >= binding:
            piece = self.comparison(piece) if sign in COMPARISONS else self.combination(piece, sign)
        self.depth -= 1
        return piece

    def operand(self) -> _Parsed:
        token = self.token
        if self.sign() == "~":
            self.advance()
            piece = self.expression(NOT)
            if self.mask_mod and isinstance(piece.expression, Compare) and not piece.is_enclosed:
                self.refuse("In Python, ~ binds more tightly than a comparison. Write ~( … ).", token)
            return self.part(Not(self.mask(piece, "~")), token.start, piece)
        if self.sign() == "-":
            self.advance()
            piece = self.expression(NEGATIVE)
            term = self.term(piece, "-")
            if isinstance(term, Number):
                return piece._replace(expression=Number(-term.number), start=token.start)
            return self.computed(Arithmetic("-", Number(0), term), token, piece)
        if token.word == "(":
            self.advance()
            piece = self.expression()
            self.close(")", token)
            return piece._replace(start=token.start, is_enclosed=True)
        if token.kind == "number":
            return self.part(Number(self.number()), token.start)
        if token.kind == "name" and token.word not in WORDS:
            return self.name()
        self.unexpected("a mask, such as causal, or a number, such as q or 4,")

    def comparison(self, left: _Parsed) -> _Parsed:
        pieces: list[_Parsed] = [left]
        signs: list[Any] = []
        while (sign := self.sign()) in COMPARISONS:
            signs.append(sign)
            self.advance()
            pieces.append(self.expression(PRECEDENCE[sign] + 1))
        terms = tuple(self.term(piece, sign) for piece, sign in zip(pieces, [signs[0], *signs], strict=True))
        # Written down, a chain of comparisons is a chain of And.
        return self.part(Compare(terms, tuple(signs)), left.start, *pieces, levels=len(signs))

    def combination(self, left: _Parsed, sign: Any) -> _Parsed:
        """Parses two masks or two numbers with an operator between them."""
        token = self.advance()
        right = self.expression(PRECEDENCE[sign] + 1)
        if sign in ("&", "|"):
            if self.mask_mod:
                self.check_enclosed(token, left, right)
            kind = And if sign == "&" else Or
            return self.part(kind(self.mask(left, sign), self.mask(right, sign)), left.start, left, right)
        piece = self.computed(Arithmetic(sign, self.term(left, sign), self.term(right, sign)), token, left, right)
        return piece._replace(start=left.start)

    def check_enclosed(self, sign: Token, *pieces: _Parsed) -> None:
        """Raises MaskError for a comparison beside & or | that Python would read otherwise than this language."""
        for piece in pieces:
            if isinstance(piece.expression, Compare) and not piece.is_enclosed:
                sentence = f"In Python, {sign.word} binds more tightly than a comparison. Put this one in parentheses."
                raise MaskError(self.text, piece.start, sentence)

    def name(self) -> _Parsed:
        """Parses a name that was assigned, a position, a function or a mask of the catalogue."""
        token = self.advance()
        if value := self.values.get(token.word):
            self.spend(value.parts, token.start)
            self.spend_numbers(value.numbers, token)
            return value.piece._replace(start=token.start, is_enclosed=True)
        if position := self.positions.get(token.word):
            if position == "b":
                self.refuse(f"{token.word} is the position in the batch. A mask here is the same in all of it.", token)
            if self.token.word == "(":
                self.refuse(f"{token.word} is a number and takes nothing in parentheses. To multiply, write *.")
            return self.part(Variable(position), token.start)
        if token.word in FUNCTIONS:
            return self.function(token)
        if token.word not in names():
            if self.mask_mod:
                self.check_value(token)
            known = [*names(), *self.positions, *self.values, *FUNCTIONS]
            self.unknown(token, f"There is no mask called “{_shortened(token.word)}”", known)
        return self.catalogue(token)

    def check_value(self, token: Token) -> None:
        """Raises MaskError for a name in a mask_mod that stands for a number or a table of the program around it."""
        word = _shortened(token.word)
        if word in ("True", "False"):
            self.refuse(f"{word} is not read. Write q >= 0 for what is always true, q < 0 for what never is.", token)
        if self.token.word == "[":
            self.refuse(f"Tables such as {word} are not read. Write a mask, such as documents([3, 4]).", token)
        if self.token.word not in (".", "("):
            self.plain(token)
            self.refuse(f"“{word}” has no value here. Write its number, or {word} = 4 above the function.", token)

    def function(self, token: Token) -> _Parsed:
        """abs(x), min(x, y, …) or max(x, y, …)."""
        name, opening = FUNCTIONS[token.word], self.token
        example = "abs(q - k)" if name == "abs" else f"{name}(q, k)"
        if opening.word != "(":
            self.refuse(f"{name} takes numbers in parentheses, as in {example}.", token)
        pieces: list[_Parsed] = []
        while not pieces or self.token.word == ",":
            self.advance()
            pieces.append(self.expression())
        self.close(")", opening)
        first, *others = pieces
        if bool(others) == (name == "abs"):
            self.refuse(f"{name} takes {'one number' if others else 'two numbers or more'}, as in {example}.", token)
        if name == "abs":
            return self.computed(Function(name, (self.term(first, name),)), token, first)
        for piece in others:
            both = (self.term(first, name), self.term(piece, name))
            first = self.computed(Function(name, both), token, first, piece)
        return first

    def catalogue(self, token: Token) -> _Parsed:
        """Parses a mask of the catalogue, with its parameters."""
        parameters, opening = _settable_fields(token.word), self.token
        values: dict[str, Any] = {}
        inside: list[_Parsed] = []
        if opening.word == "(":
            self.advance()
            while self.token.word != ")" or values:
                name = self.parameter(token, parameters, values)
                one, kinds = parameters[name]
                values[name] = self.value(f"{name} of {token.word}", one, kinds, inside)
                if self.token.word != ",":
                    break
                self.advance()
            self.close(")", opening)
        if missing := [name for name, (one, _) in parameters.items() if name not in values and _is_required(one)]:
            self.refuse(f"{_signature(token.word)}; {_enumerate(missing)} must be given.", token)
        try:
            mask = names()[token.word](**values)
        except ValueError as error:
            self.refuse(_shortened(str(error), 400), token)
        self.spend_numbers(mask.table_size(), token)
        if inside:
            self.check(mask, token)
        return self.part(mask, token.start, *inside)

    def parameter(self, mask: Token, parameters: Collection[str], values: Collection[str]) -> str:
        """Returns the parameter that comes next: the one that is named, or the next in order."""
        takes = _signature(mask.word)
        token = self.token
        if token.kind == "name" and self.later.word == "=":
            if token.word not in parameters:
                self.unknown(token, f"{takes}, but no “{_shortened(token.word)}”", parameters)
            if token.word in values:
                self.refuse(f"{token.word} is given twice. Leave one out.")
            self.advance()
            self.advance()
            return token.word
        before = list(parameters)[: len(values)]
        if len(values) == len(parameters):
            self.superfluous(mask)
        if list(values) != before:
            self.refuse(f"What follows a parameter with a name needs its name too. {takes}.")
        return list(parameters)[len(values)]

    def superfluous(self, mask: Token) -> NoReturn:
        """Raises MaskError for a value after the last parameter of a mask."""
        before = self.text[mask.start : self.token.start].rstrip().removesuffix(",").rstrip()
        inside = before.partition("(")[2].strip()
        more = re.match(r"[^,()\[\]]*", self.text[self.token.start :])
        value = (more and more[0].strip()) or "more"
        got = f" It got {_shortened(inside)} and {_shortened(value)}:" if inside and self.token.word != ")" else ""
        mend = f"{_shortened(before)})" if inside else f"{mask.word} alone"
        self.refuse(f"{_signature(mask.word)}.{got} {'write' if got else 'Write'} {mend}.")

    def value(self, name: str, one: Field, kinds: Sequence[Any], inside: list[_Parsed]) -> Any:
        """Parses the value of a parameter, of a kind that its annotation allows."""
        token = self.token
        expected = " or ".join(_kind_name(kind) for kind in kinds) + f" for {name}"
        for kind in kinds:
            if get_origin(kind) is tuple and token.word == "[":
                return self.listed(one, get_args(kind)[0])
            if kind is Mask:
                inside.append(self.expression())
                return self.mask(inside[-1])
            if get_origin(kind) is Literal:
                choices = {choice_word(value): value for value in get_args(kind)}
                if token.kind == "name" and token.word not in choices:
                    self.unknown(
                        token, f"{name} is {_enumerate(choices, 'or')}, not “{_shortened(token.word)}”", choices
                    )
                if token.kind == "name":
                    return choices[self.advance().word]
            if kind == Bits and re.match("0[xX]", token.word):
                return self.bits()
            if kind is int and (token.kind == "number" or self.sign() == "-"):
                return self.limited(one)
        self.unexpected(expected)

    def listed(self, one: Field, kind: type) -> tuple[int | bool, ...]:
        """Parses a list of numbers, or of 0 and 1."""
        opening = self.advance()
        numbers: list[int | bool] = []
        most = one.metadata.get("many", MOST_LISTED)
        while self.token.word != "]" or numbers:
            token = self.token
            numbers.append(self.limited(one) if kind is int else self.truth())
            if len(numbers) > most:
                self.refuse(f"{one.name} has at most {most:,} numbers. Leave this one out.", token)
            if self.token.word != ",":
                break
            self.advance()
        self.close("]", opening)
        return tuple(numbers)

    def limited(self, one: Field) -> int:
        """Parses an integer within the limits of a parameter."""
        token = self.token
        if negative := self.sign() == "-":
            self.advance()
        number = -self.number() if negative else self.number()
        least, most = one.metadata.get("min", -LARGEST), one.metadata.get("max", LARGEST)
        if not least <= number <= most:
            self.refuse(f"{one.name} goes from {least:,} to {most:,}; this is {number:,}.", token)
        return number

    def truth(self) -> bool:
        token = self.token
        number = self.number()
        if number not in (0, 1):
            self.refuse(f"Each number of this list is 1 for yes or 0 for no; this is {number:,}.", token)
        return number == 1

    def number(self) -> int:
        token = self.token
        if token.kind != "number":
            self.unexpected("a whole number")
        if not re.fullmatch("[0-9]+", token.word):
            product = re.fullmatch("([0-9]+)([A-Za-z_]+)", token.word)
            mend = f"To multiply, write {product[1]} * {product[2]}." if product else "Write digits alone, as in 12."
            self.refuse(f"“{_shortened(token.word)}” is no whole number. {mend}")
        if len(token.word) > 4000 or int(token.word) > LARGEST:
            self.refuse(f"Numbers go up to {LARGEST:,} here. Write a smaller one.")
        self.advance()
        return int(token.word)

    def bits(self) -> int:
        token = self.advance()
        if not re.fullmatch("0[xX][0-9a-fA-F]+", token.word):
            self.refuse("After 0x come only the digits 0 to 9 and a to f.", token)
        return int(token.word, 16)

    def mask(self, piece: _Parsed, sign: str = "") -> Mask:
        if isinstance(piece.expression, Mask):
            return piece.expression
        number = _shortened(str(piece.expression))
        needed = f"{sign} combines conditions" if sign in ("&", "|") else "a condition is needed here"
        sentence = f"“{number}” is a number, but {needed}. Compare it with another, as in q - k < 4."
        raise MaskError(self.text, piece.start, sentence)

    def term(self, piece: _Parsed, sign: str) -> Term:
        if isinstance(piece.expression, Term):
            return piece.expression
        does = "compares" if sign in COMPARISONS else "takes"
        sentence = f"“{_shortened(str(piece.expression))}” is a condition, but {sign} {does} numbers, such as q - k."
        raise MaskError(self.text, piece.start, f"{sentence} Combine conditions with & and |.")

    def part(self, expression: Mask | Term, start: int, *parts: _Parsed, levels: int = 1) -> _Parsed:
        """Returns a mask or term made of parsed parts. Raises MaskError for too many parts, or too deeply nested
        ones."""
        height = max((part.height for part in parts), default=0) + levels
        self.spend(1, start)
        if height > DEEPEST:
            sentence = (
                f"This combines more than {DEEPEST} parts one after the other. Put some in parentheses, in pairs."
            )
            raise MaskError(self.text, start, sentence)
        return _Parsed(expression, start, height)

    def spend(self, count: int, start: int) -> None:
        self.count += count
        if self.count > MOST:
            raise MaskError(self.text, start, f"This mask has more than {MOST} parts. Write it shorter, or as a grid.")

    def spend_numbers(self, count: int, token: Token) -> None:
        self.numbers += count
        if self.numbers > MOST_NUMBERS:
            self.refuse(
                f"The lists make tables of {self.numbers:,} numbers; at most {MOST_NUMBERS:,} are possible. Write "
                "smaller numbers, or fewer such masks.", token,
            )  # fmt: skip

    def computed(self, term: Term, token: Token, *parts: _Parsed) -> _Parsed:
        """Returns a term made of parsed parts. Raises MaskError if it cannot be computed at all positions."""
        piece = self.part(term, token.start, *parts)
        try:
            term.bounds()
        except ValueError as error:
            self.refuse(str(error), token)
        return piece

    def check(self, mask: Mask, token: Token) -> None:
        """Raises MaskError if a mask inside another cannot be computed everywhere, because the outer one shifts
        positions."""
        todo: list[tuple[Mask, int, Bounds, Bounds]] = [(mask, 0, POSITION_BOUNDS["q"], POSITION_BOUNDS["k"])]
        while todo:
            one, nested, q, k = todo.pop()
            if isinstance(one, Compare):
                try:
                    for term in one.terms:
                        term.bounds({**POSITION_BOUNDS, "q": q, "k": k})
                except ValueError as error:
                    moved = f"Inside {token.word}, q goes from {q[0]:,} to {q[1]:,} and k from {k[0]:,} to {k[1]:,}."
                    self.refuse(f"{error} {moved}", token)
            if isinstance(one, Shifted):
                q = (q[0] + one.by, q[1] + one.by)
            elif not isinstance(one, Combined | Not):
                # Others may count from wherever one of their parts begins.
                q, k = ((least - POSITION_BOUNDS["q"][1], greatest) for least, greatest in (q, k))
                nested += 1
            parts = [getattr(one, field.name) for field in fields(one)]  # type: ignore[arg-type]
            inside = [part for part in parts if isinstance(part, Mask)]
            if inside and nested > NESTED:
                self.refuse(f"More than {NESTED} {token.word} stand inside each other here. Leave some out.", token)
            todo += [(part, nested, q, k) for part in inside]

    def sign(self) -> str:
        """Returns the next operator in its normal form; empty if there is none."""
        if self.token.kind == "name":
            if self.mask_mod and self.token.word in WORDS:
                sign = WORDS[self.token.word]
                example = "~(q < k)" if sign == "~" else f"(q >= kv) {sign} (q - kv < 4)"
                self.refuse(f"In a mask_mod, “{self.token.word}” fails on tensors. Write {sign}, as in {example}.")
            return WORDS.get(self.token.word, "")
        return UNICODE.get(self.token.word, self.token.word) if self.token.kind == "sign" else ""

    def advance(self) -> Token:
        token = self.token
        self.token, self.later = self.later, next(self.tokens, self.later)
        return token

    def close(self, mark: str, opening: Token) -> None:
        if self.token.word != mark:
            self.unexpected(f"“{mark}” for the “{opening.word}” at character {opening.start + 1}")
        self.advance()

    def refuse(self, sentence: str, token: Token | None = None) -> NoReturn:
        raise MaskError(self.text, (token or self.token).start, sentence) from None

    def unexpected(self, expected: str) -> NoReturn:
        """Raises MaskError for the next word, with what was expected instead."""
        token = self.token
        if token.kind == "end":
            ended = "text" if token.start == len(self.text) else "line"
            self.refuse(f"The {ended} ends where {expected} is expected.")
        if self.mask_mod and token.word in PYTHON_HINTS:
            self.refuse(f"Here stands “{token.word}”. {PYTHON_HINTS[token.word]}")
        if token.word in HINTS:
            self.refuse(f"The language has no “{token.word}” here. {HINTS[token.word]}")
        if token.word not in UNICODE:
            self.plain(token)
        self.refuse(f"Here stands “{_shortened(token.word)}” where {expected} is expected.")

    def unknown(self, token: Token, sentence: str, known: Collection[str]) -> NoReturn:
        self.plain(token)
        if mend := how_to_write(token.word[:40]):
            self.refuse(f"{sentence}. {mend}", token)
        close = difflib.get_close_matches(token.word[:40].lower(), known, 1)
        self.refuse(f"{sentence}{f'; did you mean {close[0]}?' if close else '.'}", token)

    def plain(self, token: Token) -> None:
        """Raises MaskError for invisible characters and for characters that look like those of the language."""
        for place, character in enumerate(token.word, token.start):
            if not (character.isascii() and character.isprintable()):
                subject = f"“{character}” is" if character.isprintable() else "Here is a character that cannot be seen,"
                name = unicodedata.name(character, f"U+{ord(character):04X}").lower()
                mend = "Write letters without accents, or delete it."
                raise MaskError(self.text, place, f"{subject} {name}, which the language does not have. {mend}")


@cache
def _settable_fields(name: str) -> dict[str, tuple[Field, tuple[Any, ...]]]:
    """Returns the fields of a mask that a person may set, with the types of their values; without fields that are None
    until the mask is bound."""
    kind: Any = names()[name]
    hints = get_type_hints(kind, include_extras=True)
    parameters = {}
    for one in fields(kind):
        hint = hints[one.name]
        kinds = get_args(hint) if get_origin(hint) is UnionType else (hint,)
        if NoneType not in kinds:
            parameters[one.name] = one, kinds
    return parameters


def _signature(name: str) -> str:
    """Returns a clause that says which parameters a mask takes."""
    parameters = _settable_fields(name)
    if len(parameters) == 1:
        ((only, (_, kinds)),) = parameters.items()
        return f"{name} takes one {'number' if kinds == (int,) else 'parameter'}, its {only}"
    return f"{name} takes {_enumerate(parameters) or 'no parameters'}"


def _is_required(one: Field) -> bool:
    return one.default is MISSING and one.default_factory is MISSING


def _kind_name(kind: Any) -> str:
    if get_origin(kind) is tuple:
        return "a list such as [1, 0, 1]" if bool in get_args(kind) else "a list such as [3, 4]"
    if get_origin(kind) is Literal:
        return _enumerate([choice_word(value) for value in get_args(kind)], "or")
    return "a number such as 0x80c0" if kind == Bits else "a whole number"


def _enumerate(words: Collection[str], last: str = "and") -> str:
    *first, final = words or [""]
    return f"{', '.join(first)} {last} {final}" if first else final


def _shortened(text: str, most: int = 40) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
