"""The map of a long text in a real browser: search, the curve of the pinned query, bookmarks."""

from pathlib import Path

import numpy as np
from playwright.sync_api import expect

from tests.support.browser import Explore

TOKENS = [f"t{i}" for i in range(1000)]


def test_a_long_text_is_searched_and_its_curve_and_bookmarks_move_the_map(explore: Explore, tmp_path: Path) -> None:
    query, key, value = np.random.default_rng(0).normal(size=(3, 1, len(TOKENS), 8))
    np.savez(tmp_path / "long.npz", query=query, key=key, value=value, tokens=TOKENS)
    explore.visit("?source=Upload")
    explore.upload(tmp_path / "long.npz")
    page, curve = explore.page, explore.chart("query-curve")
    expect(curve).to_have_attribute("data-rows", "1000")
    explore.painted()

    page.get_by_role("textbox", name="Find in the text").fill("t70")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Match 1 of 11")).to_be_visible()
    explore.painted()
    page.get_by_role("button", name="Next").click()
    expect(page.get_by_text("Match 2 of 11")).to_be_visible()
    explore.expect_in_link("pinned", "700+%C2%B7+t700")
    explore.expect_in_link("part-of-keys", "444")
    expect(page.locator(".attnviz-context mark").first).to_have_text("t700")

    explore.painted()
    page.get_by_role("button", name="Bookmarks").click()
    page.get_by_role("textbox", name="Name").fill("here")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Bookmark this part").click()
    explore.expect_in_link("bookmarks", "444-955.444-955.700.here")
    page.keyboard.press("Escape")

    explore.painted()
    curve.scroll_into_view_if_needed()
    x, y = explore.place(curve, 0, 0, 1, 1000)  # the first key, at the height of the middle
    page.mouse.move(x, y)
    expect(curve.locator(".attnviz-sentence")).to_contain_text("of its attention to t")
    page.mouse.click(x, y)
    explore.expect_in_link("part-of-keys", "0")
    explore.painted()
    page.get_by_role("button", name="Bookmarks").click()
    page.get_by_role("button", name="here", exact=True).click()
    explore.expect_in_link("part-of-keys", "444")
    explore.painted()
