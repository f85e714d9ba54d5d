"""Sentences of cells, and labels of tokens."""

import json
from pathlib import Path

import pytest

from attnviz.base.formatting import number, visible
from attnviz.figures import cell_sentence, label
from attnviz.figures.sentences import GIVES_AT_MOST, GIVES_ON_AVERAGE

CASES = Path(__file__).parents[1] / "cases"  # which the tests of the browser's side use, too


def test_a_cell_says_who_gives_how_much_to_whom() -> None:
    assert cell_sentence("it", "animal", 0.41) == "it gives 0.41 of its attention to animal."
    assert cell_sentence("it", "animal", None) == "it may not look at animal."
    assert cell_sentence("it", "animal", 0.1, GIVES_ON_AVERAGE).endswith("on average over heads.")
    assert "up to 0.10" in cell_sentence("it", "animal", 0.1, GIVES_AT_MOST)


def test_braces_in_a_token_are_text() -> None:
    assert cell_sentence("{key}", "{0}", 0.5) == "{key} gives 0.50 of its attention to {0}."


@pytest.mark.parametrize(("weight", "text"), json.loads((CASES / "numbers.json").read_text()))
def test_numbers_have_two_digits_that_count(weight: float, text: str) -> None:
    assert number(weight) == text


@pytest.mark.parametrize(
    ("token", "text"),
    [
        ("", "∅"),
        (" ", "␣"),
        (" cat", "␣cat"),
        ("a cat ", "a cat␣"),
        ("\n", "␊"),
        ("a\x07b", "a␇b"),
        ("\x7f", "␡"),
        ("a\u202eb", "a⟨202E⟩b"),
        ("👩\u200d🔬", "👩\u200d🔬"),
        ("e\u0301", "e\u0301"),
        ("שלום", "שלום"),
    ],
)
def test_what_cannot_be_seen_is_made_visible(token: str, text: str) -> None:
    assert visible(token) == text


@pytest.mark.parametrize(
    ("token", "text"),
    [
        ("<s>", "&lt;s&gt;"),
        ("&amp;", "&amp;amp;"),
        ("<b>x</b>", "&lt;b&gt;x&lt;/b&gt;"),
        ("supercalifragilistic", "supercalifrag…"),
    ],
)
def test_labels_are_short_and_no_markup(token: str, text: str) -> None:
    assert label(token) == text
