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

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import Field
from typing import Any, Literal, NamedTuple, NoReturn, get_args, get_origin

from attnviz.base.formatting import enumeration, grouped
from attnviz.base.language import N_, _
from attnviz.masks.comparisons import COMPARISONS
from attnviz.masks.grid import Bits
from attnviz.masks.lexer import MaskError, Token, tokens
from attnviz.masks.mask import PRECEDENCE as MASK_PRECEDENCE
from attnviz.masks.mask import And, Compare, Mask, Not, Or, choice_word
from attnviz.masks.mask_mod import MaskFunction, read_mask_mod
from attnviz.masks.mask_parameters import is_required, names, parameters_clause, settable_fields, value_kind
from attnviz.masks.nesting import check_nesting
from attnviz.masks.terms import ATOM, Arithmetic, Function, Number, Term, Variable
from attnviz.masks.terms import PRECEDENCE as TERM_PRECEDENCE
from attnviz.masks.token_reader import WORDS, TokenReader, shortened

LONGEST_TEXT = 80_000  # characters, as many as the largest grid takes
DEEPEST = 50  # parts inside each other, so that nothing that walks a mask runs out of stack
MOST_PARTS = 500  # masks, comparisons, operations and numbers
MOST_LISTED = 4096  # numbers in a list
MOST_NUMBERS = 1 << 22  # in the tables of all masks together, which follow from their lists
POSITIONS = ("q", "k", "h", "n_q", "n_k")
FUNCTIONS: dict[str, Literal["abs", "min", "max"]] = {"abs": "abs", "min": "min", "max": "max"}
# How tightly a sign binds: those between masks, and then those between terms.
PRECEDENCE: dict[str, int] = {"|": MASK_PRECEDENCE[Or], "&": MASK_PRECEDENCE[And]}
PRECEDENCE |= dict.fromkeys(COMPARISONS, MASK_PRECEDENCE[Compare])
PRECEDENCE |= {sign: MASK_PRECEDENCE[Compare] + binds for sign, binds in TERM_PRECEDENCE.items()}
NOT, NEGATIVE = MASK_PRECEDENCE[Not], MASK_PRECEDENCE[Compare] + ATOM


def parse(text: str) -> Mask:
    """Returns the mask that a text describes.

    Raises MaskError, with the position, if the text is not a mask, or too long, too deep or too large to compute with.

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
    if len(text) > LONGEST_TEXT:
        sentence = _(
            "A mask has at most {most} characters; this text has {count}.",
            most=grouped(LONGEST_TEXT),
            count=grouped(len(text)),
        )
        raise MaskError(text, LONGEST_TEXT, sentence)
    return _Parser(text).whole()


class _Parsed(NamedTuple):
    """A parsed part of the text."""

    expression: Mask | Term
    start: int
    height: int  # how many parts stand inside each other in it
    is_enclosed: bool = False  # whether it stands in parentheses


class _Value(NamedTuple):
    """The value of a name, its number of parts, and the numbers in its tables."""

    piece: _Parsed
    parts: int
    numbers: int


class _Parser(TokenReader):
    """Parses from left to right, by precedence climbing."""

    def __init__(self, text: str) -> None:
        self.mask_mod = read_mask_mod(text)
        super().__init__(text, mask_mod=self.mask_mod is not None)
        self.positions = {name: name for name in POSITIONS}  # and what they stand for
        self.values: dict[str, _Value] = {}  # of the names that a mask_mod assigns
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
        self.start(words)
        if self.token.kind == "end":
            self.refuse(_("There is nothing here yet. Write a mask, such as causal or q - k < 4."))
        piece = self.expression()
        if self.token.kind != "end":
            self.unexpected(_("an operator, such as & or |, or the end"))
        return piece

    def expression(self, binding: int = 1) -> _Parsed:
        """Parses up to an operator that binds less tightly than `binding`."""
        self.depth += 1
        if self.depth > DEEPEST:
            self.refuse(_("More than {most} parts are nested here. Write the mask more simply.", most=DEEPEST))
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
            if self.is_mask_mod and isinstance(piece.expression, Compare) and not piece.is_enclosed:
                self.refuse(_("In Python, ~ binds more tightly than a comparison. Write ~( … )."), token)
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
        self.unexpected(_("a mask, such as causal, or a number, such as q or 4,"))

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
            if self.is_mask_mod:
                self.check_enclosed(token, left, right)
            kind = And if sign == "&" else Or
            return self.part(kind(self.mask(left, sign), self.mask(right, sign)), left.start, left, right)
        piece = self.computed(Arithmetic(sign, self.term(left, sign), self.term(right, sign)), token, left, right)
        return piece._replace(start=left.start)

    def check_enclosed(self, sign: Token, *pieces: _Parsed) -> None:
        """Raises MaskError for a comparison beside & or | that Python would read otherwise than this language."""
        for piece in pieces:
            if isinstance(piece.expression, Compare) and not piece.is_enclosed:
                sentence = _(
                    "In Python, {sign} binds more tightly than a comparison. Put this one in parentheses.",
                    sign=sign.word,
                )
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
                self.refuse(
                    _("{name} is the position in the batch. A mask here is the same in all of it.", name=token.word),
                    token,
                )
            if self.token.word == "(":
                self.refuse(
                    _("{name} is a number and takes nothing in parentheses. To multiply, write *.", name=token.word)
                )
            return self.part(Variable(position), token.start)
        if token.word in FUNCTIONS:
            return self.function(token)
        if token.word not in names():
            if self.is_mask_mod:
                self.check_value(token)
            known = [*names(), *self.positions, *self.values, *FUNCTIONS]
            self.unknown(token, _("There is no mask called “{name}”", name=shortened(token.word)), known)
        return self.catalogue(token)

    def check_value(self, token: Token) -> None:
        """Raises MaskError for a name in a mask_mod that stands for a number or a table of the program around it."""
        word = shortened(token.word)
        if word in ("True", "False"):
            self.refuse(
                _("{word} is not read. Write q >= 0 for what is always true, q < 0 for what never is.", word=word),
                token,
            )
        if self.token.word == "[":
            self.refuse(
                _("Tables such as {word} are not read. Write a mask, such as documents([3, 4]).", word=word), token
            )
        if self.token.word not in (".", "("):
            self.plain(token)
            self.refuse(
                _("“{word}” has no value here. Write its number, or {word} = 4 above the function.", word=word), token
            )

    def function(self, token: Token) -> _Parsed:
        """abs(x), min(x, y, …) or max(x, y, …)."""
        name, opening = FUNCTIONS[token.word], self.token
        example = "abs(q - k)" if name == "abs" else f"{name}(q, k)"
        if opening.word != "(":
            self.refuse(_("{name} takes numbers in parentheses, as in {example}.", name=name, example=example), token)
        pieces: list[_Parsed] = []
        while not pieces or self.token.word == ",":
            self.advance()
            pieces.append(self.expression())
        self.close(")", opening)
        first, *others = pieces
        if bool(others) == (name == "abs"):
            sentence = (
                _("{name} takes one number, as in {example}.", name=name, example=example)
                if others
                else _("{name} takes two numbers or more, as in {example}.", name=name, example=example)
            )
            self.refuse(sentence, token)
        if name == "abs":
            return self.computed(Function(name, (self.term(first, name),)), token, first)
        for piece in others:
            both = (self.term(first, name), self.term(piece, name))
            first = self.computed(Function(name, both), token, first, piece)
        return first

    def catalogue(self, token: Token) -> _Parsed:
        """Parses a mask of the catalogue, with its parameters."""
        parameters, opening = settable_fields(token.word), self.token
        values: dict[str, Any] = {}
        inside: list[_Parsed] = []
        if opening.word == "(":
            self.advance()
            while self.token.word != ")" or values:
                name = self.parameter(token, parameters, values)
                one, kinds = parameters[name]
                values[name] = self.value(
                    _("{parameter} of {mask}", parameter=name, mask=token.word), one, kinds, inside
                )
                if self.token.word != ",":
                    break
                self.advance()
            self.close(")", opening)
        if missing := [name for name, (one, _kinds) in parameters.items() if name not in values and is_required(one)]:
            self.refuse(
                _(
                    "{takes}; {parameters} must be given.",
                    takes=parameters_clause(token.word),
                    parameters=enumeration(missing),
                ),
                token,
            )
        try:
            mask = names()[token.word](**values)
        except ValueError as error:
            self.refuse(shortened(str(error), 400), token)
        self.spend_numbers(mask.table_size(), token)
        if inside:
            try:
                check_nesting(mask, token.word)
            except ValueError as problem:
                self.refuse(str(problem), token)
        return self.part(mask, token.start, *inside)

    def parameter(self, mask: Token, parameters: Collection[str], values: Collection[str]) -> str:
        """Returns the parameter that comes next: the one that is named, or the next in order."""
        takes = parameters_clause(mask.word)
        token = self.token
        if token.kind == "name" and self.later.word == "=":
            if token.word not in parameters:
                self.unknown(token, _("{takes}, but no “{name}”", takes=takes, name=shortened(token.word)), parameters)
            if token.word in values:
                self.refuse(_("{name} is given twice. Leave one out.", name=token.word))
            self.advance()
            self.advance()
            return token.word
        before = list(parameters)[: len(values)]
        if len(values) == len(parameters):
            self.superfluous(mask)
        if list(values) != before:
            self.refuse(_("A parameter after one with a name needs its name, too. {takes}.", takes=takes))
        return list(parameters)[len(values)]

    def superfluous(self, mask: Token) -> NoReturn:
        """Raises MaskError for a value after the last parameter of a mask."""
        before = self.text[mask.start : self.token.start].rstrip().removesuffix(",").rstrip()
        inside = before.partition("(")[2].strip()
        more = re.match(r"[^,()\[\]]*", self.text[self.token.start :])
        value = shortened((more and more[0].strip()) or _("more"))
        takes, mend = parameters_clause(mask.word), f"{shortened(before)})"
        if not inside:
            self.refuse(_("{takes}. Write {mask} alone.", takes=takes, mask=mask.word))
        if self.token.word == ")":
            self.refuse(_("{takes}. Write {mend}.", takes=takes, mend=mend))
        got = shortened(inside)
        self.refuse(_("{takes}. It got {got} and {more}: write {mend}.", takes=takes, got=got, more=value, mend=mend))

    def value(self, name: str, one: Field, kinds: Sequence[Any], inside: list[_Parsed]) -> Any:
        """Parses the value of a parameter, of a kind that its annotation allows."""
        token = self.token
        kind_names = enumeration([value_kind(kind) for kind in kinds], N_("or"))
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
                        token,
                        _(
                            "{parameter} is {choices}, not “{word}”",
                            parameter=name,
                            choices=enumeration(list(choices), N_("or")),
                            word=shortened(token.word),
                        ),
                        choices,
                    )
                if token.kind == "name":
                    return choices[self.advance().word]
            if kind == Bits and re.match("0[xX]", token.word):
                return self.bits()
            if kind is int and (token.kind == "number" or self.sign() == "-"):
                return self.limited(one)
        self.unexpected(_("{kinds} for {parameter}", kinds=kind_names, parameter=name))

    def listed(self, one: Field, kind: type) -> tuple[int | bool, ...]:
        """Parses a list of numbers, or of 0 and 1."""
        opening = self.advance()
        numbers: list[int | bool] = []
        most = one.metadata.get("many", MOST_LISTED)
        while self.token.word != "]" or numbers:
            token = self.token
            numbers.append(self.limited(one) if kind is int else self.truth())
            if len(numbers) > most:
                self.refuse(
                    _("{name} has at most {most} numbers. Leave this one out.", name=one.name, most=grouped(most)),
                    token,
                )
            if self.token.word != ",":
                break
            self.advance()
        self.close("]", opening)
        return tuple(numbers)

    def mask(self, piece: _Parsed, sign: str = "") -> Mask:
        if isinstance(piece.expression, Mask):
            return piece.expression
        number = shortened(str(piece.expression))
        sentence = (
            _(
                "“{number}” is a number, but {sign} combines conditions. Compare it with another, as in q - k < 4.",
                number=number,
                sign=sign,
            )
            if sign in ("&", "|")
            else _(
                "“{number}” is a number, but a condition is needed here. Compare it with another, as in q - k < 4.",
                number=number,
            )
        )
        raise MaskError(self.text, piece.start, sentence)

    def term(self, piece: _Parsed, sign: str) -> Term:
        if isinstance(piece.expression, Term):
            return piece.expression
        sentence = _(
            N_(
                "“{condition}” is a condition, but {sign} compares numbers, such as q - k. Combine "
                "conditions with & and |."
            )
            if sign in COMPARISONS
            else N_(
                "“{condition}” is a condition, but {sign} takes numbers, such as q - k. Combine "
                "conditions with & and |."
            ),
            condition=shortened(str(piece.expression)),
            sign=sign,
        )
        raise MaskError(self.text, piece.start, sentence)

    def part(self, expression: Mask | Term, start: int, *parts: _Parsed, levels: int = 1) -> _Parsed:
        """Returns a mask or term made of parsed parts. Raises MaskError for too many parts, or too deeply nested
        ones."""
        height = max((part.height for part in parts), default=0) + levels
        self.spend(1, start)
        if height > DEEPEST:
            sentence = _(
                "This combines more than {most} parts one after the other. Put some in parentheses, in pairs.",
                most=DEEPEST,
            )
            raise MaskError(self.text, start, sentence)
        return _Parsed(expression, start, height)

    def spend(self, count: int, start: int) -> None:
        self.count += count
        if self.count > MOST_PARTS:
            sentence = _("This mask has more than {most} parts. Write it shorter, or as a grid.", most=MOST_PARTS)
            raise MaskError(self.text, start, sentence)

    def spend_numbers(self, count: int, token: Token) -> None:
        self.numbers += count
        if self.numbers > MOST_NUMBERS:
            self.refuse(
                _(
                    "The lists make tables of {count} numbers; at most {most} are possible. Write smaller numbers, or "
                    "fewer such masks.",
                    count=grouped(self.numbers),
                    most=grouped(MOST_NUMBERS),
                ),
                token,
            )

    def computed(self, term: Term, token: Token, *parts: _Parsed) -> _Parsed:
        """Returns a term made of parsed parts. Raises MaskError if it cannot be computed at all positions."""
        piece = self.part(term, token.start, *parts)
        try:
            term.bounds()
        except ValueError as error:
            self.refuse(str(error), token)
        return piece
