"""Side by side in a real browser: a cell is marked on every map, also where one text is longer."""

from collections.abc import Iterator

import numpy as np
import pytest
from playwright.sync_api import Locator, expect

from attnviz.analysis.head_maps import head_map
from attnviz.base.formatting import number
from attnviz.base.text import EXAMPLE
from attnviz.models.minilm import minilm
from attnviz.pages.side_by_side.state import TWINS
from tests.support.browser import AppPage, Browser, shared

WIDER = "The animal didn't cross the very wide street because it was too wide."
LEFT, RIGHT, CHANGE = charts = "left-map", "right-map", "sides-difference"


class Sides(AppPage):
    """The page Side by side."""

    path, charts = "side_by_side", charts

    def sentence_of(self, key: str) -> Locator:
        return self.chart(key).locator(".attnviz-sentence")


@pytest.fixture
def sides(browser: Browser, address: str) -> Iterator[Sides]:
    with shared(browser, address, kind=Sides) as page:
        yield page


def weights(text: str) -> np.ndarray:
    layer = minilm().layers(text)[3]
    return head_map(layer.inputs, layer.mechanism, 1).numpy()


@pytest.mark.parametrize(
    ("text", "row", "column"), [(TWINS[EXAMPLE], 12, 8), (WIDER, 14, 10)], ids=["equally long", "longer"]
)
def test_cells_are_marked_on_every_map_and_clicked_and_texts_are_typed(
    sides: Sides, text: str, row: int, column: int
) -> None:
    """“too” and “street”, which stand elsewhere in the longer text."""
    sides.open("" if text == TWINS[EXAMPLE] else f"?right-text={text.replace(' ', '+')}")
    left, right = (sides.chart(key) for key in (LEFT, RIGHT))
    before, after = weights(EXAMPLE), weights(text)
    np.testing.assert_allclose(sides.weights(left), before, atol=1e-6)
    np.testing.assert_allclose(sides.weights(right), after, atol=1e-6)
    shares = number(float(before[12, 8])), number(float(after[row, column]))
    for chart, cell in ((left, (12, 8)), (right, (row, column)), (sides.chart(CHANGE), (12, 8))):
        sides.page.mouse.move(*sides.cell(*cell, chart))
        for key, share in ((LEFT, shares[0]), (RIGHT, shares[1])):
            expect(sides.sentence_of(key)).to_have_text(f"too gives {share} of its attention to street.")
        expect(sides.sentence_of(CHANGE)).to_have_text(
            f"too gives {shares[0]} of its attention to street on the left, {shares[1]} on the right."
        )
    if text == WIDER:  # what one side alone has is marked there alone
        sides.open(f"?right-text={WIDER.replace(' ', '+')}&pinned=none")
        sides.page.mouse.move(*sides.cell(8, 2, sides.chart(RIGHT)))
        expect(sides.sentence_of(RIGHT)).to_contain_text("very gives ")
        expect(sides.sentence_of(LEFT)).to_have_text("Point at a cell: it is marked on both sides.")
        return
    sides.page.mouse.click(*sides.cell(13, 2, sides.chart(RIGHT)))
    sides.expect_in_link("pinned", "13+%C2%B7+tired")
    sides.painted()
    field = sides.page.get_by_label("Text on the right")
    field.fill("A text of its own.")
    field.press("Enter")
    sides.expect_in_link("right-text", "A+text+of+its+own.")
    expect(sides.chart(RIGHT)).to_have_attribute("data-rows", "8")
    expect(sides.chart(CHANGE)).to_have_count(0)
    expect(sides.page.get_by_text("too few tokens in common")).to_be_visible()
