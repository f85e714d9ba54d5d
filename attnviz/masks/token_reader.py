"""The words of a mask's text, one after the other, with sentences for those that are not expected."""

import difflib
import re
import unicodedata
from collections.abc import Collection, Iterator
from dataclasses import Field
from typing import NoReturn

from attnviz.base.formatting import grouped
from attnviz.base.language import N_, _
from attnviz.masks.lexer import MaskError, Token
from attnviz.masks.synonyms import how_to_write

LARGEST_NUMBER = 1_000_000_000
WORDS = {"and": "&", "or": "|", "not": "~"}
UNICODE = {"≤": "<=", "≥": ">=", "≠": "!=", "¬": "~", "∧": "&", "∨": "|", "−": "-"}
HINTS = {
    "**": N_("Multiply instead, as in q * q."),
    "/": N_("Division rounds down and is written //."),
    "=": N_("To compare, write ==."),
    ":=": N_("To compare, write ==."),
    "<>": N_("Write !=."),
    "<<": N_("Multiply by 2, 4, 8, … instead."),
    ">>": N_("Divide by 2, 4, 8, … with // instead."),
    "&&": N_("Write & alone."),
    "||": N_("Write | alone."),
    "!": N_("Write ~ for “not”."),
    "^": N_("For “one but not both”, write a & ~b | b & ~a."),
    "{": N_("Lists are written in [ and ]."),
}
PYTHON_HINTS = {
    ".": N_("Methods are not read. Write abs(x), min(x, y) or max(x, y) as functions."),
    "if": N_("Join conditions with &, | and ~, as in (h < 2) & (q >= kv) | (h >= 2)."),
}


class TokenReader:
    """Reads the tokens of a text; in a mask_mod some words mean something else."""

    def __init__(self, text: str, *, mask_mod: bool) -> None:
        self.text, self.is_mask_mod = text, mask_mod

    def start(self, words: Iterator[Token]) -> None:
        """Starts at the first of these tokens."""
        self.tokens = words
        self.token = next(self.tokens)
        self.later = next(self.tokens, self.token)

    def advance(self) -> Token:
        token = self.token
        self.token, self.later = self.later, next(self.tokens, self.later)
        return token

    def sign(self) -> str:
        """Returns the next operator in its normal form; empty if there is none."""
        if self.token.kind == "name":
            if self.is_mask_mod and self.token.word in WORDS:
                sign = WORDS[self.token.word]
                example = "~(q < k)" if sign == "~" else f"(q >= kv) {sign} (q - kv < 4)"
                self.refuse(
                    _(
                        "In a mask_mod, “{word}” fails on tensors. Write {sign}, as in {example}.",
                        word=self.token.word,
                        sign=sign,
                        example=example,
                    )
                )
            return WORDS.get(self.token.word, "")
        return UNICODE.get(self.token.word, self.token.word) if self.token.kind == "sign" else ""

    def close(self, mark: str, opening: Token) -> None:
        if self.token.word != mark:
            expected = _(
                "“{mark}” for the “{opening}” at character {position}",
                mark=mark,
                opening=opening.word,
                position=opening.start + 1,
            )
            self.unexpected(expected)
        self.advance()

    def number(self) -> int:
        token = self.token
        if token.kind != "number":
            self.unexpected(_("a whole number"))
        if not re.fullmatch("[0-9]+", token.word):
            product = re.fullmatch("([0-9]+)([A-Za-z_]+)", token.word)
            mend = (
                _("To multiply, write {product}.", product=f"{product[1]} * {product[2]}")
                if product
                else _("Write digits alone, as in 12.")
            )
            self.refuse(_("“{word}” is not a whole number. {mend}", word=shortened(token.word), mend=mend))
        if len(token.word) > 4000 or int(token.word) > LARGEST_NUMBER:
            self.refuse(_("Numbers go up to {most} here. Write a smaller one.", most=grouped(LARGEST_NUMBER)))
        self.advance()
        return int(token.word)

    def limited(self, one: Field) -> int:
        """Parses an integer within the limits of a parameter."""
        token = self.token
        if negative := self.sign() == "-":
            self.advance()
        number = -self.number() if negative else self.number()
        least, most = one.metadata.get("min", -LARGEST_NUMBER), one.metadata.get("max", LARGEST_NUMBER)
        if not least <= number <= most:
            limits = {"least": grouped(least), "most": grouped(most), "number": grouped(number)}
            self.refuse(_("{name} goes from {least} to {most}; this is {number}.", name=one.name, **limits), token)
        return number

    def truth(self) -> bool:
        token = self.token
        number = self.number()
        if number not in (0, 1):
            self.refuse(
                _("Each number of this list is 1 for yes or 0 for no; this is {number}.", number=grouped(number)), token
            )
        return number == 1

    def bits(self) -> int:
        token = self.advance()
        if not re.fullmatch("0[xX][0-9a-fA-F]+", token.word):
            self.refuse(_("After 0x come only the digits 0 to 9 and a to f."), token)
        return int(token.word, 16)

    def refuse(self, sentence: str, token: Token | None = None) -> NoReturn:
        raise MaskError(self.text, (token or self.token).start, sentence) from None

    def unexpected(self, expected: str) -> NoReturn:
        """Raises MaskError for the next word, with what was expected instead."""
        token = self.token
        if token.kind == "end":
            if token.start == len(self.text):
                self.refuse(_("The text ends where {expected} is expected.", expected=expected))
            self.refuse(_("The line ends where {expected} is expected.", expected=expected))
        if self.is_mask_mod and token.word in PYTHON_HINTS:
            self.refuse(_("Unexpected “{word}”. {mend}", word=token.word, mend=_(PYTHON_HINTS[token.word])))
        if token.word in HINTS:
            self.refuse(_("The language has no “{word}” here. {mend}", word=token.word, mend=_(HINTS[token.word])))
        if token.word not in UNICODE:
            self.plain(token)
        self.refuse(_("Unexpected “{word}”: {expected} is expected.", word=shortened(token.word), expected=expected))

    def unknown(self, token: Token, sentence: str, known: Collection[str]) -> NoReturn:
        self.plain(token)
        if mend := how_to_write(token.word[:40]):
            self.refuse(f"{sentence}. {mend}", token)
        close = difflib.get_close_matches(token.word[:40].lower(), known, 1)
        if close:
            self.refuse(_("{sentence}; did you mean {name}?", sentence=sentence, name=close[0]), token)
        self.refuse(f"{sentence}.", token)

    def plain(self, token: Token) -> None:
        """Raises MaskError for invisible characters and for characters that look like those of the language."""
        for place, character in enumerate(token.word, token.start):
            if not (character.isascii() and character.isprintable()):
                name = unicodedata.name(character, f"U+{ord(character):04X}").lower()
                sentence = (
                    _(
                        "“{character}” is {name}, which the language does not have. Write letters without accents, or "
                        "delete it.",
                        character=character,
                        name=name,
                    )
                    if character.isprintable()
                    else _(
                        "Here is a character that cannot be seen, {name}, which the language does not have. Write "
                        "letters without accents, or delete it.",
                        name=name,
                    )
                )
                raise MaskError(self.text, place, sentence)


def shortened(text: str, most: int = 40) -> str:
    """Returns a text, or its beginning."""
    return text if len(text) <= most else text[: most - 1] + "…"
