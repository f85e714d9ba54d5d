"""HTML that the pages make: text is escaped wherever it is put in."""

import pytest

from attnviz.ui import html
from attnviz.ui.html import Markup

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
        html.strongest([(EVIL, EVIL)]),
        html.table([EVIL], [[EVIL, EVIL]], foot=[EVIL, EVIL], caption=EVIL),
    ],
)
def test_text_is_escaped(made: Markup) -> None:
    assert "<script" not in made
    assert ESCAPED in made


def test_attributes_are_named_as_html_names_them_and_none_is_left_out() -> None:
    made = html.element("p", "x", class_="a", aria_label="b", role=None)
    assert made == "<p class='a' aria-label='b'>x</p>"


def test_the_first_cell_of_a_row_is_its_heading_and_the_last_fills_the_row() -> None:
    made = html.table(["", "x", "y"], [["a", 1, 2], ["b", "none"]], marked=1)
    assert "<tr><th>a</th><td>1</td><td>2</td></tr>" in made
    assert "<tr class='attnviz-chosen'><th>b</th><td colspan='2'>none</td></tr>" in made
