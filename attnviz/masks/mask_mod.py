"""The parts of a mask_mod of FlexAttention that is pasted as Python: its parameters, local names and result.

Python itself never reads the text: its words are sorted here, and the expressions are read as those of any mask.
"""

import re
from dataclasses import dataclass
from itertools import chain
from typing import NoReturn

from attnviz.base.language import _
from attnviz.masks.lexer import MaskError, Token, outside_brackets, python_lines

FORMS = "“lambda b, h, q, kv: q >= kv” or “def causal(b, h, q, kv): return q >= kv”"
# A line that begins a function, or gives a name to one.
FUNCTION = re.compile(r"^[^\S\r\n]*(?:\w+[^\S\r\n]*(?::[^=\r\n]*)?=[^\S\r\n]*)?(?:def|lambda)\b", re.MULTILINE)
OPERATORS = ("+", "-", "*", "/", "//", "%", "&", "|")

Assignment = tuple[str, list[Token]]  # a name and the words of its value


@dataclass(frozen=True)
class MaskFunction:
    """A function of four positions, which returns an expression."""

    constants: list[Assignment]  # before the function, and default values of further parameters
    parameters: list[str]
    names: list[Assignment]  # in the function
    result: list[Token]


def read_mask_mod(text: str) -> MaskFunction | None:
    """Returns the parts of a mask_mod; None if the text is not a function. Docstrings, comments and annotations are
    left out. Raises MaskError for a function that has other parts."""
    if not FUNCTION.search(text):
        return None
    return _Reader(text).function()


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = python_lines(text)

    def function(self) -> MaskFunction:
        constants: list[Assignment] = []
        for line in self.lines:
            if line[0].word == "def":
                return self.definition(line, constants)
            name, value = self.assignment(line) or ("", line)
            if value[0].word == "lambda":
                return self.lambda_function(value, constants)
            if name:
                constants.append((name, value))
            elif not _is_string(line):
                self.refuse(
                    line[0],
                    _(
                        "Unexpected “{word}” before the function. Paste the function alone, with the numbers that it "
                        "uses above it, such as window = 4.",
                        word=line[0].word[:40],
                    ),
                )
        self.refuse_form(Token("end", "", 0))

    def definition(self, line: list[Token], constants: list[Assignment]) -> MaskFunction:
        if len(line) < 4 or line[1].kind != "name" or line[2].word != "(":
            self.refuse_form(line[0])
        closing = next((i for i, token in outside_brackets(line) if i > 2 and token.word == ")"), None)
        colon = next((i for i, token in outside_brackets(line) if closing and i > closing and token.word == ":"), None)
        if closing is None or colon is None:
            self.refuse_form(line[0])
        after = [token.word for token in line[closing + 1 : closing + 3]]
        if closing + 1 < colon and after != ["-", ">"]:
            self.refuse_form(line[closing + 1])
        parameters = self.parameters(line[2 : closing + 1], constants)
        names: list[Assignment] = []
        body = [line[colon + 1 :]] if line[colon + 1].kind != "end" else []
        for words in chain(body, self.lines):
            if words[0].word == "return":
                self.end()
                return MaskFunction(constants, parameters, names, words[1:])
            if assignment := self.assignment(words):
                names.append(assignment)
            elif not _is_string(words):
                self.refuse_statement(words)
        self.refuse(
            Token("end", "", len(self.text)),
            _("The function ends without a result. Write return and a condition."),
        )

    def lambda_function(self, words: list[Token], constants: list[Assignment]) -> MaskFunction:
        colon = next((i for i, token in outside_brackets(words) if token.word == ":"), None)
        if colon is None:
            self.refuse_form(words[0])
        self.end()
        return MaskFunction(constants, self.parameters(words[: colon + 1], constants), [], words[colon + 1 :])

    def parameters(self, words: list[Token], constants: list[Assignment]) -> list[str]:
        """Returns the names of the four parameters that stand between the first and the last of these words; others
        that have a default value are constants."""
        opening, *inside = words
        names: list[str] = []
        start = 0
        for i, token in outside_brackets(inside):
            if token.word == "," or i == len(inside) - 1:
                item = [*inside[start:i], Token("end", "", token.start)]
                if default := self.assignment(item):
                    constants.append(default)
                elif len(item) > 1:
                    is_name = item[0].kind == "name" and (len(item) == 2 or item[1].word == ":")
                    names.append(item[0].word if is_name else "")
                start = i + 1
        if len(set(names)) != 4 or len(names) != 4 or "" in names:
            place = opening._replace(start=opening.start + len(opening.word))
            self.refuse(
                place, _("A mask_mod has four parameters, for batch, head, query and key, as in {forms}.", forms=FORMS)
            )
        return names

    def assignment(self, words: list[Token]) -> Assignment | None:
        """Returns the name and the value of `name = value` or `name: annotation = value`; None for other lines."""
        equal = next((i for i, token in outside_brackets(words) if token.word == "="), None)
        if equal is None or words[0].kind != "name" or not (equal == 1 or words[1].word == ":"):
            return None
        return words[0].word, words[equal + 1 :]

    def end(self) -> None:
        """Raises MaskError for anything but strings after the function."""
        for line in self.lines:
            if not _is_string(line):
                self.refuse(line[0], _("The function ends before this line. Delete what follows it."))

    def refuse_statement(self, words: list[Token]) -> NoReturn:
        first, *others = words
        signs = [token.word for token in others[:3]]
        if first.kind == "name" and signs[0] in OPERATORS and signs[1] == "=":
            name = first.word[:40]
            self.refuse(others[0], _("Write {statement}.", statement=f"{name} = {name} {signs[0]} ( … )"))
        if first.word in ("if", "elif", "else", "for", "while"):
            self.refuse(
                first,
                _(
                    "“{word}” is not read. Join conditions with &, | and ~, as in (h < 2) & (q >= kv) | (h >= 2).",
                    word=first.word,
                ),
            )
        self.refuse(
            first,
            _(
                "Unexpected “{word}”: a name with its value, such as near = q - kv < 4, or return is expected.",
                word=first.word[:40],
            ),
        )

    def refuse_form(self, token: Token) -> NoReturn:
        self.refuse(
            token, _("A function is read if it returns a condition of four positions, such as {forms}.", forms=FORMS)
        )

    def refuse(self, token: Token, sentence: str) -> NoReturn:
        raise MaskError(self.text, token.start, sentence)


def _is_string(words: list[Token]) -> bool:
    return all(token.kind == "string" for token in words[:-1])
