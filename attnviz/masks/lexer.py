"""The words of a text that describes a mask, and errors that say where in it something is wrong."""

import re
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from attnviz.base.language import _

TOKEN = re.compile(
    r"\s+|(?P<number>[0-9][\w.]*)|(?P<name>[^\W0-9]\w*)"
    r"|(?P<sign>//|<=|>=|==|!=|\*\*|<<|>>|<>|&&|\|\||:=|[-+*%<>&|~=(),\[\]≤≥≠¬∧∨−])|(?P<other>\S)"
)
# Python also has ends of lines, comments and strings; one that is not closed is read as a single quotation mark.
PYTHON_TOKEN = re.compile(
    r"[^\S\r\n]+|\\(?:\r\n?|\n)|\#[^\r\n]*|(?P<line>\r\n?|\n|;)|[rRuU]?(?P<string>"
    r'"""(?:[^\\]|\\.)*?"""|\'\'\'(?:[^\\]|\\.)*?\'\'\'|"(?!"")(?:[^"\\\r\n]|\\.)*"|\'(?!\'\')(?:[^\'\\\r\n]|\\.)*\')|'
    + TOKEN.pattern,
    re.DOTALL,
)


class MaskError(ValueError):
    """A text that is not a mask: where, what was expected, and what to do.

    `position` is the index of the wrong word in the text, `sentence` what is wrong, and `pointer` the line with a caret
    below.
    """

    def __init__(self, text: str, position: int, sentence: str) -> None:
        super().__init__(text, position, sentence)
        self.text, self.position, self.sentence = text, position, sentence

    def __str__(self) -> str:
        if self.position >= len(self.text):
            return _("At the end: {sentence}", sentence=self.sentence)
        return _("At character {position}: {sentence}", position=self.position + 1, sentence=self.sentence)

    @property
    def pointer(self) -> str:
        """The line of the text that is meant, or 72 characters of it, with ^ below the place."""
        start = self.text.rfind("\n", 0, self.position) + 1
        first = max(start, self.position - 60)
        line = self.text[first : first + 72].split("\n", 1)[0]
        printable = "".join(c if c.isprintable() else " " for c in line)
        return f"{printable}\n{' ' * (self.position - first)}^"


class Token(NamedTuple):
    kind: str  # number · name · sign · string · other · end
    word: str
    start: int


def tokens(text: str) -> Iterator[Token]:
    """Returns the words of a text, and its end."""
    return chain(_scan(TOKEN, text), (Token("end", "", len(text)),))


def python_lines(text: str) -> Iterator[list[Token]]:
    """Yields the words of each logical line of Python, with its end: a line break inside brackets ends none."""
    line: list[Token] = []
    depth = 0
    for token in (*_scan(PYTHON_TOKEN, text), Token("line", "", len(text))):
        if token.kind != "line":
            depth = max(depth + (token.word in ("(", "[", "{")) - (token.word in (")", "]", "}")), 0)
            line.append(token)
        elif line and (not depth or token.start == len(text)):
            yield [*line, Token("end", "", token.start)]
            line = []


def outside_brackets(words: list[Token]) -> Iterator[tuple[int, Token]]:
    """Yields the words that stand in no brackets, with their indices; brackets themselves stand outside."""
    depth = 0
    for index, token in enumerate(words):
        depth -= token.word in (")", "]", "}")
        if depth <= 0:
            yield index, token
        depth += token.word in ("(", "[", "{")


def _scan(pattern: re.Pattern[str], text: str) -> Iterator[Token]:
    for match in pattern.finditer(text):
        if kind := match.lastgroup:
            yield Token(kind, match[kind], match.start())
