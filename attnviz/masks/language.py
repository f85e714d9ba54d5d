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

A mask_mod of FlexAttention that is one expression of comparisons is read, too: `lambda b, h, q, kv: q >= kv`, or
`def causal(b, h, q_idx, kv_idx): return q_idx >= kv_idx`. In it & and | bind as in Python.

`str(mask)` writes what `parse` reads.
"""

import difflib
import re
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from dataclasses import MISSING, Field, fields
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, NoReturn, get_args, get_origin, get_type_hints

from attnviz.masks.catalogue import MASKS
from attnviz.masks.comparisons import COMPARISONS
from attnviz.masks.grid import Bits, Grid
from attnviz.masks.mask import PRECEDENCE as MASK_PRECEDENCE
from attnviz.masks.mask import And, Combined, Compare, Mask, Not, Or, Shifted, choice_word, snake_case
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
TOKEN = re.compile(
    r"\s+|(?P<number>[0-9][\w.]*)|(?P<name>[^\W0-9]\w*)"
    r"|(?P<sign>//|<=|>=|==|!=|\*\*|<<|>>|<>|&&|\|\||:=|[-+*%<>&|~=(),\[\]≤≥≠¬∧∨−])|(?P<other>\S)"
)
# The head of a mask_mod: its parameters, up to where its expression begins.
FUNCTION_HEAD = re.compile(r"\s*(?:(?:\w+\s*=\s*)?lambda\b([^:]*):|def\s+\w+\s*\(([^()]*)\)\s*:\s*return\b)")
FUNCTION_FORMS = "“lambda b, h, q, kv: q >= kv” or “def causal(b, h, q, kv): return q >= kv”"


class MaskError(ValueError):
    """A text that is no mask: where, what was expected, and what to do.

    `position` is the index of the wrong word in the text, `sentence` what is wrong, and `pointer` the line with a caret
    below.
    """

    def __init__(self, text: str, position: int, sentence: str) -> None:
        super().__init__(text, position, sentence)
        self.text, self.position, self.sentence = text, position, sentence

    def __str__(self) -> str:
        place = f"At character {self.position + 1}" if self.position < len(self.text) else "At the end"
        return f"{place}: {self.sentence}"

    @property
    def pointer(self) -> str:
        """The line of the text that is meant, or 72 characters of it, with ^ below the place."""
        start = self.text.rfind("\n", 0, self.position) + 1
        first = max(start, self.position - 60)
        line = self.text[first : first + 72].split("\n", 1)[0]
        printable = "".join(c if c.isprintable() else " " for c in line)
        return f"{printable}\n{' ' * (self.position - first)}^"


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
        attnviz.masks.language.MaskError: At the end: The text ends where a mask, such as causal, or a number, ...
    """
    if len(text) > LONGEST:
        raise MaskError(text, LONGEST, f"A mask has at most {LONGEST:,} characters; this text has {len(text):,}.")
    return _Parser(text).whole()


@cache
def names() -> dict[str, type[Mask]]:
    """Returns the masks that the language can name."""
    return {snake_case(kind): kind for kind in (*MASKS, Grid, Shifted)}


class _Token(NamedTuple):
    kind: str  # number · name · sign · other · end
    word: str
    start: int


class _Parsed(NamedTuple):
    """A parsed part of the text."""

    expression: Mask | Term
    start: int
    height: int  # how many parts stand inside each other in it
    is_enclosed: bool = False  # whether it stands in parentheses


class _Parser:
    """Parses from left to right, by precedence climbing."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.names = {name: name for name in POSITIONS}  # and what they stand for
        self.head = FUNCTION_HEAD.match(text)
        self.tokens = _tokens(text, self.head.end() if self.head else 0)
        self.token = next(self.tokens)
        self.later = next(self.tokens, self.token)
        self.depth = self.count = self.numbers = 0

    def whole(self) -> Mask:
        if self.head:
            self.read_parameters(self.head)
        elif self.token.word in ("lambda", "def"):
            self.refuse(f"A function is read if it is one expression of four positions, such as {FUNCTION_FORMS}.")
        if self.token.kind == "end":
            self.refuse("There is nothing here yet. Write a mask, such as causal or q - k < 4.")
        piece = self.expression()
        if self.token.kind != "end":
            self.unexpected("an operator, such as & or |, or the end")
        return self.mask(piece)

    def read_parameters(self, head: re.Match[str]) -> None:
        """Gives the four parameters of a mask_mod, whatever their names, the meaning of b, h, q and k."""
        group = 1 if head[1] is not None else 2
        parameters = [name.strip() for name in head[group].split(",")]
        if len(set(parameters)) != 4 or len(parameters) != 4 or not all(name.isidentifier() for name in parameters):
            sentence = f"A mask_mod has four parameters, for batch, head, query and key, as in {FUNCTION_FORMS}."
            raise MaskError(self.text, head.start(group), sentence)
        self.names |= dict(zip(parameters, "bhqk", strict=True))

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
            opening = self.token.word
            piece = self.expression(NOT)
            if self.head and opening != "(" and isinstance(piece.expression, Compare):
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
            if self.head:
                self.check_enclosed(token, left, right)
            kind = And if sign == "&" else Or
            return self.part(kind(self.mask(left, sign), self.mask(right, sign)), left.start, left, right)
        piece = self.computed(Arithmetic(sign, self.term(left, sign), self.term(right, sign)), token, left, right)
        return piece._replace(start=left.start)

    def check_enclosed(self, sign: _Token, *pieces: _Parsed) -> None:
        """Raises MaskError for a comparison beside & or | that Python would read otherwise than this language."""
        for piece in pieces:
            if isinstance(piece.expression, Compare) and not piece.is_enclosed:
                sentence = f"In Python, {sign.word} binds more tightly than a comparison. Put this one in parentheses."
                raise MaskError(self.text, piece.start, sentence)

    def name(self) -> _Parsed:
        """Parses a position, a function or a mask of the catalogue."""
        token = self.advance()
        if position := self.names.get(token.word):
            if position == "b":
                self.refuse(f"{token.word} is the position in the batch. A mask here is the same in all of it.", token)
            if self.token.word == "(":
                self.refuse(f"{token.word} is a number and takes nothing in parentheses. To multiply, write *.")
            return self.part(Variable(position), token.start)
        if token.word in FUNCTIONS:
            return self.function(token)
        if token.word not in names():
            known = [*names(), *self.names, *FUNCTIONS]
            self.unknown(token, f"There is no mask called “{_shortened(token.word)}”", known)
        return self.catalogue(token)

    def function(self, token: _Token) -> _Parsed:
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

    def catalogue(self, token: _Token) -> _Parsed:
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
        self.numbers += mask.table_size()
        if self.numbers > MOST_NUMBERS:
            self.refuse(
                f"The lists make tables of {self.numbers:,} numbers; at most {MOST_NUMBERS:,} are possible. Write "
                "smaller numbers, or fewer such masks.", token,
            )  # fmt: skip
        if inside:
            self.check(mask, token)
        return self.part(mask, token.start, *inside)

    def parameter(self, mask: _Token, parameters: Collection[str], values: Collection[str]) -> str:
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

    def superfluous(self, mask: _Token) -> NoReturn:
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
        self.count += 1
        if self.count > MOST:
            raise MaskError(self.text, start, f"This mask has more than {MOST} parts. Write it shorter, or as a grid.")
        if height > DEEPEST:
            sentence = (
                f"This combines more than {DEEPEST} parts one after the other. Put some in parentheses, in pairs."
            )
            raise MaskError(self.text, start, sentence)
        return _Parsed(expression, start, height)

    def computed(self, term: Term, token: _Token, *parts: _Parsed) -> _Parsed:
        """Returns a term made of parsed parts. Raises MaskError if it cannot be computed at all positions."""
        piece = self.part(term, token.start, *parts)
        try:
            term.bounds()
        except ValueError as error:
            self.refuse(str(error), token)
        return piece

    def check(self, mask: Mask, token: _Token) -> None:
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
            if self.head and self.token.word in WORDS:
                sign = WORDS[self.token.word]
                example = "~(q < k)" if sign == "~" else f"(q >= kv) {sign} (q - kv < 4)"
                self.refuse(f"In a mask_mod, “{self.token.word}” fails on tensors. Write {sign}, as in {example}.")
            return WORDS.get(self.token.word, "")
        return UNICODE.get(self.token.word, self.token.word) if self.token.kind == "sign" else ""

    def advance(self) -> _Token:
        token = self.token
        self.token, self.later = self.later, next(self.tokens, self.later)
        return token

    def close(self, mark: str, opening: _Token) -> None:
        if self.token.word != mark:
            self.unexpected(f"“{mark}” for the “{opening.word}” at character {opening.start + 1}")
        self.advance()

    def refuse(self, sentence: str, token: _Token | None = None) -> NoReturn:
        raise MaskError(self.text, (token or self.token).start, sentence) from None

    def unexpected(self, expected: str) -> NoReturn:
        """Raises MaskError for the next word, with what was expected instead."""
        token = self.token
        if token.kind == "end":
            self.refuse(f"The text ends where {expected} is expected.")
        if token.word in HINTS:
            self.refuse(f"The language has no “{token.word}” here. {HINTS[token.word]}")
        if token.word not in UNICODE:
            self.plain(token)
        self.refuse(f"Here stands “{_shortened(token.word)}” where {expected} is expected.")

    def unknown(self, token: _Token, sentence: str, known: Collection[str]) -> NoReturn:
        self.plain(token)
        if mend := how_to_write(token.word[:40]):
            self.refuse(f"{sentence}. {mend}", token)
        close = difflib.get_close_matches(token.word[:40].lower(), known, 1)
        self.refuse(f"{sentence}{f'; did you mean {close[0]}?' if close else '.'}", token)

    def plain(self, token: _Token) -> None:
        """Raises MaskError for invisible characters and for characters that look like those of the language."""
        for place, character in enumerate(token.word, token.start):
            if not (character.isascii() and character.isprintable()):
                subject = f"“{character}” is" if character.isprintable() else "Here is a character that cannot be seen,"
                name = unicodedata.name(character, f"U+{ord(character):04X}").lower()
                mend = "Write letters without accents, or delete it."
                raise MaskError(self.text, place, f"{subject} {name}, which the language does not have. {mend}")


def _tokens(text: str, start: int) -> Iterator[_Token]:
    for match in TOKEN.finditer(text, start):
        if kind := match.lastgroup:
            yield _Token(kind, match[kind], match.start())
    yield _Token("end", "", len(text))


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
