"""The demo of the documentation: pages from files, without a network."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from docs.tools.demo import FOLDER, PAGES
from tests.support.browser import Browser, place_of, without_troubles
from tests.support.waiting import until


@pytest.fixture(scope="module")
def page(browser: Browser) -> Iterator[Page]:
    """A page that all tests share; nothing may go wrong in it, and it asks nobody for anything."""
    page = browser.new_page()
    page.context.set_offline(True)
    try:
        with without_troubles(page, FOLDER.as_uri()):
            yield page
    finally:
        page.context.set_offline(False)
        page.close()


def opened(page: Page, name: str) -> None:
    page.set_viewport_size({"width": 1280, "height": 800})
    page.goto((FOLDER / f"{name}.html").as_uri())


def chart(page: Page, name: str) -> Locator:
    """A chart by its name, once it is painted."""
    return page.locator(f'[data-name="{name}"] .attnviz-chart[data-ready=true]')


def sentence(page: Page, name: str = "heatmap") -> Locator:
    return chart(page, name).locator(".attnviz-sentence")


def point(page: Page, chart: Locator, row: int, column: int, rows: int, columns: int) -> tuple[float, float]:
    """Moves the pointer to a cell of a chart of rows × columns."""
    box = place_of(chart.locator(".nsewdrag"))
    place = box["x"] + (column + 0.5) * box["width"] / columns, box["y"] + (row + 0.5) * box["height"] / rows
    page.mouse.move(*place)
    return place


def expect_to_fit_a_phone(page: Page) -> None:
    """A phone shows the page in the colors that its address asks for, and its links to the others keep them."""
    page.set_viewport_size({"width": 390, "height": 844})
    viewer = page.locator(".attnviz-viewer")
    expect(viewer).to_have_attribute("data-theme", "light")
    page.evaluate("location.hash = 'dark'")
    expect(viewer).to_have_attribute("data-theme", "dark")
    expect(page.locator(".attnviz-chart[data-ready=true]").first).to_be_visible()
    until(lambda: page.evaluate("document.documentElement.scrollWidth") == 390)  # charts follow the new width
    other = page.get_by_role("navigation", name="Demo").get_by_role("link").first
    assert (other.get_attribute("href") or "").endswith(".html#dark")


def test_each_page_is_tested_here() -> None:
    assert {page.name for page in PAGES} == {"explore", "masks", "why", "write"}


def test_explore_opens_heads_and_pins_queries(page: Page) -> None:
    opened(page, "explore")
    expect(sentence(page)).to_have_text("it gives 0.68 of its attention to animal.")
    page.mouse.click(*point(page, chart(page, "heads"), 4, 2, 6, 12))
    expect(page.get_by_label("Layer", exact=True)).to_have_value("encoder 4")
    expect(page.get_by_label("Head", exact=True)).to_have_value("Head 2")
    expect(sentence(page)).not_to_have_text("it gives 0.68 of its attention to animal.")
    page.mouse.click(*point(page, chart(page, "heatmap"), 2, 3, 16, 16))
    expect(page.get_by_label("Pinned query")).to_have_value("2 · animal")
    expect(page.locator(".attnviz-summary")).to_have_text("animal gives 0.87 of its attention to [CLS].")
    page.get_by_label("Layer", exact=True).select_option("encoder 1")
    expect(page.locator(".attnviz-in-words")).to_have_text("encoder 1, head 2")
    expect_to_fit_a_phone(page)


def test_masks_change_with_a_click(page: Page) -> None:
    opened(page, "masks")
    expect(sentence(page, "map-b")).to_contain_text("it gives")
    expect(page.get_by_role("link", name="Causal", exact=True)).to_have_attribute("aria-current", "true")
    before = sentence(page, "map-b").inner_text()
    page.get_by_role("link", name="Sliding window", exact=True).click()
    expect(page.get_by_role("link", name="Sliding window", exact=True)).to_have_attribute("aria-current", "true")
    expect(sentence(page, "map-b")).not_to_have_text(before)
    point(page, chart(page, "map-a"), 10, 2, 16, 16)
    expect(sentence(page, "map-a")).to_have_text("it gives 0.68 of its attention to animal.")
    expect(sentence(page, "map-b")).to_have_text("it may not look at animal.")
    expect_to_fit_a_phone(page)


def test_why_is_followed_and_back(page: Page) -> None:
    opened(page, "why")
    questions, answer = page.locator(".attnviz-trail li"), page.locator(".attnviz-summary")
    start = answer.inner_text()
    page.get_by_role("link", name="24.4").click()
    expect(page.locator(".attnviz-page")).to_contain_text("Layer 24, head 4 at “to” adds −1.09.")
    page.get_by_role("link", name="its sum").first.click()
    expect(questions.nth(1)).to_contain_text("What did layer 24, head 4 find at “Mary” for “to”? −1.1")
    expect(page.locator(".attnviz-viewer-message")).to_be_hidden()
    questions.first.get_by_role("link").click()
    expect(questions).to_have_count(0)
    expect(answer).to_have_text(start)
    expect_to_fit_a_phone(page)


def test_write_plays_what_was_written(page: Page) -> None:
    opened(page, "write")
    text, tokens = page.locator(".write-text"), page.locator(".attnviz-write")
    expect(tokens).to_have_attribute("data-tokens", "21")
    whole = text.inner_text()
    page.get_by_role("button", name="Start again").click()
    expect(tokens).to_have_attribute("data-tokens", "12")
    assert whole.startswith(text.inner_text())
    page.get_by_role("button", name="Next word").click()
    expect(page.locator(".write-sentence")).to_contain_text("Before “Rome” this head looked most at “Paris”")
    expect(page.locator(".write-alternative[aria-current]")).to_have_text(re.compile(r"Rome\d+ %"))
    expect(sentence(page)).to_contain_text("Paris")
    expect(page.get_by_role("button", name="Next word")).to_be_focused()
    page.get_by_role("button", name="Play", exact=True).click()
    expect(tokens).to_have_attribute("data-tokens", "15")
    page.get_by_role("button", name="Pause").click()
    page.locator(".write-token").nth(5).click()
    expect(page.locator(".write-sentence")).to_have_text(re.compile("looked most at “Paris” before “Rome” 0.65"))
    page.get_by_label("Written tokens").fill("9")
    expect(text).to_have_text(whole)
    expect_to_fit_a_phone(page)
