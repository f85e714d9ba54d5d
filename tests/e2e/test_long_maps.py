"""The map of a long text in a real browser: search, and the curve of the pinned query."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from playwright.sync_api import expect

from attnviz import Inputs, Layer, Mechanism, Trace
from attnviz.layer import Kind, LayerId
from tests.support.browser import Browser, Explore, opened, serving

TOKENS = tuple(f"t{i}" for i in range(1100))


@pytest.fixture
def long_explore(browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Explore]:
    torch.manual_seed(0)
    inputs = Inputs(*torch.randn(3, 1, len(TOKENS), 8), TOKENS, TOKENS)
    Trace((Layer(LayerId("decoder", 0), Kind.SELF, inputs, Mechanism()),)).save(tmp_path / "traces" / "long")
    monkeypatch.setenv("ATTNVIZ_TRACES", str(tmp_path / "traces"))
    with serving(tmp_path / "log") as address, opened(browser, address) as page:
        yield page


def test_a_long_text_is_searched_and_its_curve_moves_the_map(long_explore: Explore) -> None:
    explore = long_explore.open("?source=Trace&trace=long")
    page, curve = explore.page, explore.chart("query-curve")
    expect(curve).to_have_attribute("data-rows", "1000")
    explore.painted()

    page.get_by_role("textbox", name="Find in the text").fill("t70")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="Go to the first").click()
    expect(page.get_by_text("Match 1 of 11")).to_be_visible()
    explore.painted()
    page.get_by_role("link", name="Next").click()
    expect(page.get_by_text("Match 2 of 11")).to_be_visible()
    explore.expect_in_link("pinned", "700+%C2%B7+t700")
    explore.expect_in_link("part-of-keys", "444")
    expect(page.locator(".attnviz-context mark").first).to_have_text("t700")

    explore.painted()
    curve.scroll_into_view_if_needed()
    x, y = explore.place(curve, 0, 0, 1, 1000)  # the first key, at the height of the middle
    page.mouse.move(x, y)
    expect(curve.locator(".attnviz-sentence")).to_contain_text("of its attention to t")
    page.mouse.click(x, y)
    explore.expect_in_link("part-of-keys", "0")
    explore.painted()
