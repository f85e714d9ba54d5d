"""Numbers, sizes and text from outside as they stand in a sentence."""

import unicodedata
from decimal import ROUND_HALF_UP, Context, Decimal

TWO_DIGITS = Context(prec=2, rounding=ROUND_HALF_UP)


def number(weight: float) -> str:
    """A weight as it is read: two digits that count, and one of a weight too small to see."""
    if weight < 0:
        return f"−{number(-weight)}"
    exact = Decimal(weight)  # rounded half up, as the browser does
    if weight >= 0.095 or weight == 0:
        return str(exact.quantize(Decimal("0.01"), ROUND_HALF_UP))
    return f"{TWO_DIGITS.create_decimal(exact):f}" if weight >= 1e-4 else f"{weight:.0e}"


def visible(token: str) -> str:
    """A token as a person can see it: control characters as their symbols, white space marked, nothing as ∅."""
    if not token.strip():
        return "".join("␣" if c == " " else _symbol(c) for c in token) or "∅"
    return "".join(_symbol(c) if unicodedata.category(c) in ("Cc", "Cf") else c for c in token)


def quoted(text: object, most: int = 40) -> str:
    """Text from outside, fit to stand in a sentence: short, printable, and between quotation marks of its own."""
    text = str(text)
    text = text if len(text) <= most else text[: most - 1] + "…"
    return "“" + "".join(c if c.isprintable() and c not in "“”" else "�" for c in text) + "”"


def megabytes(count: int) -> str:
    return f"{count / (1 << 20):,.1f} MB"


def _symbol(character: str) -> str:
    code = ord(character)
    if character in "\u200d\u200c\u200e\u200f":  # joiners and marks of direction shape the letters around them
        return character
    return chr(0x2400 + code) if code < 0x20 else "␡" if code == 0x7F else f"⟨{code:X}⟩"
