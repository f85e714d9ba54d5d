"""HTML that the pages make: text is escaped wherever it is put in."""

import re
from pathlib import Path

import pytest

from attnviz.page import html
from attnviz.page.html import Markup

ROOT = Path(__file__).parents[2]
EVIL = "<script>alert('1')</script>"
ESCAPED = "&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;"


@pytest.mark.parametrize(
    "made",
    [
        html.element("p", EVIL),
        html.element("p", "", title=EVIL),
        html.join([EVIL, EVIL], EVIL),
        html.token(EVIL),
        html.summary(EVIL),
        html.note(EVIL),
        html.paragraphs([EVIL]),
        html.table([EVIL], [[EVIL, EVIL]]),
    ],
)
def test_text_is_escaped(made: Markup) -> None:
    assert "<script" not in made
    assert ESCAPED in made


def test_attributes_are_named_as_html_names_them_and_none_is_left_out() -> None:
    made = html.element("p", "x", class_="a", aria_label="b", role=None)
    assert made == "<p class='a' aria-label='b'>x</p>"


def test_the_first_cell_of_a_row_is_its_heading_and_the_last_fills_the_row() -> None:
    made = html.table(["", "x", "y"], [["a", 1, 2], ["b", "none"], ["", "all"]], marked=1)
    assert "<tr><th>a</th><td>1</td><td>2</td></tr>" in made
    assert "<tr class='attnviz-chosen'><th>b</th><td colspan='2'>none</td></tr>" in made
    assert "<tr><td></td><td colspan='2'>all</td></tr>" in made  # a heading without text is a barrier


@pytest.mark.parametrize("folder", ["attnviz/ui", "pages"])
def test_no_module_escapes_by_hand(folder: str) -> None:
    by_hand = re.compile(r"import escape\b|f[\"']<(?!style>)\w+[ >]")
    modules = [path for path in (ROOT / folder).rglob("*.py") if path.name != "html.py"]
    assert modules
    assert [str(path.relative_to(ROOT)) for path in modules if by_hand.search(path.read_text())] == []
