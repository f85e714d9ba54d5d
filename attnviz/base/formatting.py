"""Numbers, sizes and text from outside, formatted for sentences."""

import math
import reprlib
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal

from attnviz.base.language import N_, _

SPACE = "␣"  # a space that belongs to a token
LEAST = 1e-4  # the smallest number that sentences and tables write out
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")  # with which a spreadsheet begins to compute
TWO_DIGITS = Context(prec=2, rounding=ROUND_HALF_UP)


def number(weight: float | int) -> str:
    """Formats a weight with two decimals, or with two significant digits if it is small; one that is very small with a
    bound.

    >>> number(0.125), number(0.0123), number(-0.5), number(-0.0), number(3e-7), number(-3e-7)
    ('0.13', '0.012', '−0.50', '0.00', '< 0.0001', '> −0.0001')
    """
    if weight < 0:
        return f"−{number(-weight)}" if weight <= -LEAST else f"> −{LEAST:.4f}"
    if 0 < weight < LEAST:
        return f"< {LEAST:.4f}"
    exact = Decimal(weight + 0.0)  # without the sign of zero; rounded half up, as the browser does
    if weight >= 0.095 or weight == 0:
        return str(exact.quantize(Decimal("0.01"), ROUND_HALF_UP))
    return f"{TWO_DIGITS.create_decimal(exact):f}"


def numbered_tokens(positions: Sequence[int], tokens: Sequence[str]) -> list[str]:
    """Returns unique names of tokens, with their positions.

    >>> numbered_tokens([9, 10], ["street", "it"])
    ['9 · street', '10 · it']
    """
    return [f"{position} · {visible(token)[:30]}" for position, token in zip(positions, tokens, strict=True)]


def distinct_tokens(positions: Sequence[int], tokens: Sequence[str]) -> list[str]:
    """Returns the tokens at some positions, with the positions of those that are in the text several times.

    >>> distinct_tokens([0, 2], ["a", "cat", "cat"])
    ['a', '2 · cat']
    """
    counts = Counter(tokens)
    return [f"{i} · {tokens[i]}" if counts[tokens[i]] > 1 else tokens[i] for i in positions]


def fixed(value: float | int, decimals: int = 2) -> str:
    """Formats a number with a fixed number of decimals. Zero has no sign.

    >>> fixed(-1.5), fixed(-0.001), fixed(0.12345, 3)
    ('−1.50', '0.00', '0.123')
    """
    return _signed(f"{round(value, decimals) + 0.0:.{decimals}f}")


def significant(value: float | int, digits: int = 6) -> str:
    """Formats a number with at most `digits` significant digits, without trailing zeros, and with a power of ten only
    where it would have many zeros.

    >>> significant(-2.50), significant(0.123456, 3), significant(3), significant(0.00002), significant(2e-10)
    ('−2.5', '0.123', '3', '0.00002', '2e−10')
    """
    text = f"{value + 0.0:.{digits}g}"
    return _signed(f"{Decimal(text):f}" if 1e-7 <= abs(value) < 1e15 else text)


def percent(share: float | int, digits: int = 3) -> str:
    """Formats a share as a percentage. Only 1 gives 100%.

    >>> percent(0.125), percent(0.8765, 2), percent(0.9999), percent(1)
    ('12.5%', '88%', '99.9%', '100%')
    """
    if share == 1:
        return "100%"
    text = significant(100 * share, digits)
    return f"{math.floor(1000 * share) / 10}%" if float(text) >= 100 else f"{text}%"


def grouped(count: int) -> str:
    """Formats a whole number with its thousands apart, in the manner of the language.

    >>> grouped(4096), grouped(-12)
    ('4,096', '-12')
    """
    return f"{count:,}".replace(",", _(","))


def dimensions(shape: Iterable[int]) -> str:
    """Formats the shape of an array.

    >>> dimensions((12, 5, 32))
    '12 × 5 × 32'
    """
    return " × ".join(map(str, shape))


def byte_size(count: float | int) -> str:
    """Formats a number of bytes with at most three significant digits. 1 KB is 1,024 bytes, as in Streamlit.

    >>> byte_size(500), byte_size(64 << 20), byte_size(1_500_000_000)
    ('500 bytes', '64 MB', '1.4 GB')
    """
    for unit in (N_("bytes"), "KB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {_(unit)}"
        count /= 1024
    return f"{count:,.1f} TB"


def flop_count(count: int) -> str:
    """Formats a number of floating-point operations with at most three significant digits.

    >>> flop_count(512), flop_count(4_194_304), flop_count(2_199_023_255_552)
    ('512 FLOPs', '4.19 MFLOPs', '2.2 TFLOPs')
    """
    scaled, units = float(count), ["", "K", "M", "G", "T", "P", "E"]
    while scaled >= 999.5 and len(units) > 1:
        scaled, units = scaled / 1000, units[1:]
    return f"{scaled:.3g} {units[0]}FLOPs"


def plain_word(token: str) -> str:
    """Returns a token as sentences have it: without the space before it."""
    return visible(token.strip(" ") or token)


def visible(token: str) -> str:
    r"""A token as a person can see it: control characters as symbols, spaces before and after it as ␣, an empty token
    as ∅.

    >>> visible("cat"), visible(" cat"), visible(" "), visible("a\nb"), visible("")
    ('cat', '␣cat', '␣', 'a␊b', '∅')
    """
    if token.isprintable() and token and token == token.strip(" "):  # as most are
        return token
    if not token.strip():
        return "".join(SPACE if c == " " else _symbol(c) for c in token) or "∅"
    start, end = (len(token) - len(part) for part in (token.lstrip(" "), token.rstrip(" ")))
    text = "".join(_symbol(c) if unicodedata.category(c) in ("Cc", "Cf") else c for c in token.strip(" "))
    return SPACE * start + text + SPACE * end


def enumeration(names: Sequence[str], conjunction: str = N_("and")) -> str:
    """Formats names as a list in a sentence.

    >>> enumeration(["query", "key", "value"]), enumeration(["key", "value"], "or"), enumeration(["key"])
    ('query, key and value', 'key or value', 'key')
    """
    *first, last = names
    return f"{', '.join(first)} {_(conjunction)} {last}" if first else last


def quoted(value: object, longest: int = 40) -> str:
    """Formats a text or another value from outside for a sentence: short, printable, and in quotation marks.

    Whatever the value is, nothing is raised.

    >>> quoted("a“b”"), quoted("abcdef", 4)
    ('“a�b�”', '“abc…”')
    """
    text = value if isinstance(value, str) else _text(value)
    return f"“{_printable(text, longest, '“”')}”"


def spreadsheet_cell(text: str) -> str:
    """Returns a text that no spreadsheet runs as a formula.

    Example:
        >>> spreadsheet_cell(" =1+1"), spreadsheet_cell("it")
        ("' =1+1", 'it')
    """
    return f"'{text}" if text.lstrip(" ").startswith(FORMULA) else text


def short_repr(value: object, longest: int = 40) -> str:
    """Formats a value from outside as Python writes it, short and printable. Whatever the value is, nothing is raised.

    >>> short_repr("a\u202eb"), short_repr([1, [2, [3, [4, [5]]]]]), short_repr(1 << 20_000, 8)
    ("'a\\\\u202eb'", '[1, [2, [3, [4, ...]]]]', '0x10000…')
    """
    return _printable(_text(value), longest)


class _Repr(reprlib.Repr):
    """Looks at a few parts of a value."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxstring = 4, 1_000

    def repr_int(self, x: int, level: int) -> str:
        return repr(x) if abs(x) < 1 << 256 else hex(x)  # Python writes no more than 4,300 decimal digits

    def repr_instance(self, x: object, level: int) -> str:
        return str(x)


def _text(value: object) -> str:
    try:
        return _Repr().repr(value)
    except Exception:  # noqa: BLE001  # an object's own methods may do anything
        return type(value).__name__


def _printable(text: str, longest: int, marks: str = "") -> str:
    """Returns the start of a text, with � for what cannot be seen and for these marks."""
    text = text if len(text) <= longest else text[: longest - 1] + "…"
    return "".join(c if c.isprintable() and c not in marks else "�" for c in text)


def _signed(text: str) -> str:
    """Returns the text of a number with minus signs instead of hyphens, and ∞."""
    return text.replace("-", "−").replace("inf", "∞")


def _symbol(character: str) -> str:
    code = ord(character)
    if character in "\u200d\u200c\u200e\u200f":  # joiners and marks of direction shape the letters around them
        return character
    return chr(0x2400 + code) if code < 0x20 else "␡" if code == 0x7F else f"⟨{code:X}⟩"
