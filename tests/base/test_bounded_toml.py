"""Hostile TOML is refused before it costs anything, and what is read is what tomllib reads."""

import sys
import tomllib
from types import FrameType

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from attnviz.base.bounded_toml import LARGEST_INTEGER, MAX_DEPTH, MOST_PARTS, MOST_VALUES, parse_toml

LONGEST = 16_000  # characters of a text here
STEPS = 60  # lines of tomllib for each character, at most


def steps(text: str) -> int:
    """The lines of Python that tomllib runs for a text, which must be read or refused in a short sentence."""
    count, before = 0, sys.gettrace()

    def look(frame: FrameType, event: str, arg: object) -> object:
        nonlocal count
        if "tomllib" not in frame.f_code.co_filename:
            return None
        count += 1
        return look

    sys.settrace(look)
    try:
        parse_toml(text)
    except ValueError as problem:
        assert type(problem) is ValueError  # noqa: PT017
        assert len(str(problem)) < 300  # noqa: PT017
    finally:
        sys.settrace(before)
    return count


HOSTILE = {
    "dotted key": ("", "a.", "a = 1"),
    "quoted parts": ("", '"a"."b" . \'c\'.', "a = 1"),
    "dotted table": ("[", "a.", "a]"),
    "dotted list of tables": ("[[", "a.", "a]]\nb = 1"),
    "many keys below a deep table": ("[" + "a." * 3_000 + "a]\n", "b = 1\n", ""),
    "one key below many tables": ("", "[a]\n", "b = 1"),
    "lists of tables": ("", "[[a]]\n", ""),
    "nested lists of tables": ("", "[[a]]\n[[a.b]]\n[[a.b.c]]\n", ""),
    "dotted key in an inline table": ("x = { ", "a.", "a = 1 }"),
    "dotted key in a list": ('x = ["""a"""", {', "a.", 'a = 1}, """"b"]'),
    "nested inline tables": ("x = ", "{a = ", "1"),
    "nested lists": ("x = ", "[", "]"),
    "closed lists": ("x = [", "[],", "]"),
    "long list": ("x = [", "1,", "]"),
    "many keys": ("a = 1\n", "a", " = 1"),
    "long key": ("", "a", " = 1"),
    "digits": ("x = ", "9", ""),
    "hexadecimal": ("x = 0x", "f", ""),
    "fraction": ("x = 0.", "9", ""),
    "exponent": ("x = 1e", "9", ""),
    "underscores": ("x = 1", "_1", "_"),
    "dates": ("x = [", "1979-05-27T07:32:00.999999-07:00,", "]"),
    "long fraction of a second": ("x = 1979-05-27T07:32:00.", "9", ""),
    "no dates": ("x = [", "9999-99-99,", "]"),
    "string": ('x = "', "a.b=", '"'),
    "string without an end": ('x = "', "a.b=", ""),
    "strings without an end": ("", '"a\n', ""),
    "escaped quotes": ('x = """', '\\"""', ""),
    "quotes": ("x = ", '"', ""),
    "apostrophes": ("x = ", "'", ""),
    "pairs of apostrophes": ("x = '''", "''a", ""),
    "unicode escapes": ('x = "', "\\u00e4", '"'),
    "backslashes": ('x = """', "\\\n  ", '"""'),
    "comments": ("", "# a.a.a.a.a.a.a.a.a.a = [[[[[[[[[[\n", ""),
    "spaces": ("a", " .  ", "a = 1"),
    "lines": ("", "\n", ""),
    "line ends of Windows": ("", "\r\n", "a = 1"),
    "closing brackets": ("", "]", "[" * 3_000),
}


@pytest.mark.parametrize("parts", HOSTILE.values(), ids=HOSTILE)
def test_work_grows_no_faster_than_a_text(parts: tuple[str, str, str]) -> None:
    start, repeated, end = parts
    text = start + repeated * (LONGEST // len(repeated)) + end
    assert steps(text) <= STEPS * len(text)


PIECE = st.sampled_from(
    [
        *('"', "'", '"""', "'''", "\\", "#", "\n", "\r\n", ".", "=", ",", "[", "]", "{", "}", " ", "a", "1", "-", "_"),
        *("a.b.c.d.e.f.g.h.i = 1", "x = ", '""""a""""', "''''a''''", '\\"', "[[a]]", "0xff", "1e9", "\t", "\x00"),
    ]
)


@given(st.lists(PIECE, max_size=30).map("".join), st.lists(PIECE, min_size=1, max_size=4).map("".join))
@example('x = ["""a"""", {', "a.")
def test_no_text_hides_a_deep_key(start: str, repeated: str) -> None:
    """A scan that takes a key for the inside of a string lets it through."""
    text = start + repeated * (2_000 // len(repeated))
    assert steps(text) <= STEPS * len(text)


@given(st.lists(PIECE, max_size=40).map("".join))
def test_what_is_read_is_what_tomllib_reads(text: str) -> None:
    try:
        expected = tomllib.loads(text)
    except (ValueError, RecursionError):
        with pytest.raises(ValueError, match=r"It is not TOML|nests too deeply|has a whole number"):
            parse_toml(text)
        return
    try:
        assert repr(parse_toml(text)) == repr(expected)
    except ValueError as problem:
        assert "nests too deeply" in str(problem)  # noqa: PT017
        assert "a.b.c.d.e.f.g.h" in text or text.count("[") > MAX_DEPTH


def test_each_limit_is_where_it_says() -> None:
    key = ".".join("a" * MOST_PARTS)
    nested = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert parse_toml(f"{key} = {nested}\nx = {LARGEST_INTEGER}\ny = -{LARGEST_INTEGER}")
    for text, reason in {
        f"\n{key}.a = 1": "Line 2 nests too deeply",
        f"[{key} . a]": "nests too deeply",
        f"x = [{nested}]": "nests too deeply",
        f"x = {LARGEST_INTEGER + 1}": "It has a whole number of more than 9,007,199,254,740,991.",
        f"x = -0{'9' * 20}": "It is not TOML",
        f"x = -{'9' * 5_000}": "It has a whole number of more than",
        f"x = [{{ a = 0x{'f' * 5_000} }}]": "It has a whole number of more than",
        f"x = [{'1,' * MOST_VALUES}]": "It has 1,002 values; at most 1,000 are read.",
    }.items():
        with pytest.raises(ValueError, match=reason):
            parse_toml(text)


@pytest.mark.parametrize(
    "text",
    [
        'x = "a.b.c.d.e.f.g.h.i.j [[[[[[[[[["',
        "x = '''\na.b.c.d.e.f.g.h.i.j\n[[[[[[[[[['''",
        "# a.b.c.d.e.f.g.h.i.j = 1",
        'x = """\n"" ["a".b.c.d.e.f.g.h.i.j] \\""" ""\\\\"""',
    ],
)
def test_strings_and_comments_may_hold_anything(text: str) -> None:
    assert parse_toml(text) == tomllib.loads(text)
