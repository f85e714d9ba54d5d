"""The start page, and the browser's history: each choice is one entry, and Back undoes exactly it."""

import re
from collections.abc import Iterator

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from tests.support.browser import AppPage, Browser, Explore, Masks, opened

GROUPS = ".attnviz-groups article"  # on the start page


class Lookup(AppPage):
    """The Lookup page."""

    path, charts = "lookup", ("plane",)


@pytest.fixture
def lookup(browser: Browser, address: str) -> Iterator[Lookup]:
    with opened(browser, address, kind=Lookup) as page:
        yield page


def entries(page: Page) -> int:
    return page.evaluate("history.length")


def expect_page(page: Page, name: str) -> None:
    expect(page.locator("h3").first).to_have_text(name)


def test_on_a_first_visit_a_model_writes_and_the_pages_lead_on(browser: Browser, address: str) -> None:
    with opened(browser, address) as explore:
        explore.page.add_init_script("localStorage.clear()")
        explore.page.goto(address)
        caption, words = explore.page.locator("figcaption"), explore.page.locator(".attnviz-start text")
        expect(caption).to_have_text("too gives 0.48 of its attention to animal. The likeliest next word is far.")
        expect(words.get_by_text("far")).to_have_count(
            2
        )  # in the text, which is still to come, and among the likeliest
        expect(caption).to_have_text(re.compile("^far gives"))
        words.get_by_text("it", exact=True).hover()
        expect(caption).to_have_text("it gives 0.75 of its attention to animal.")
        # To lessons and pages, without loading the app anew.
        explore.page.evaluate("window.same = true")
        for link, name in (("Lessons", "Lessons"), ("Masks", "Masks"), ("Lesson 1: A dictionary", "Lookup")):
            explore.page.locator(".st-key-start").get_by_role("link", name=link, exact=True).click()
            expect_page(explore.page, name)
            explore.page.go_back()
            expect(explore.page.locator(GROUPS)).to_have_count(4)
        field = explore.page.get_by_label("Your own sentence")
        field.fill("The dog sleeps & dreams.")
        field.press("Enter")
        explore.painted()
        expect(explore.page.locator(".st-key-text input")).to_have_value("The dog sleeps & dreams.")
        assert explore.page.evaluate("window.same")


def test_a_returning_visitor_continues_where_they_were(lookup: Lookup) -> None:
    lookup.page.goto(f"{lookup.address}/lookup?softness=hard")
    expect_page(lookup.page, "Lookup")
    lookup.page.goto(f"{lookup.address}/lessons")
    again = lookup.page.context.new_page()
    again.set_viewport_size({"width": 1280, "height": 800})  # by default that of the first page of the profile
    again.goto(lookup.address)
    expect_page(again, "Lookup")
    expect(again).to_have_url(f"{lookup.address}/lookup?softness=hard")
    again.get_by_role("link", name="Start").first.click()
    expect(again.locator(GROUPS)).to_have_count(4)
    again.close()


def test_each_choice_is_one_entry_of_the_history_and_back_undoes_it(lookup: Lookup) -> None:
    lookup.open()
    page, first = lookup.page, entries(lookup.page)
    slider = page.locator(".st-key-softness input[type=range]")
    slider.press("ArrowRight")
    lookup.expect_in_link("softness", "hard")
    slider.press("ArrowRight")
    lookup.expect_in_link("softness", "T+%3D+0.03")
    lookup.painted()
    page.mouse.click(*lookup.place(lookup.chart("plane"), 0, 0, 4, 4))
    page.wait_for_url(re.compile("query-x=.*query-y="), wait_until="commit")
    lookup.painted()
    assert entries(page) == first + 3
    page.go_back()
    lookup.expect_in_link("query-x", None)
    lookup.expect_in_link("query-y", None)
    lookup.expect_in_link("softness", "T+%3D+0.03")
    page.go_back()
    lookup.expect_in_link("softness", "hard")
    page.go_back()
    lookup.expect_in_link("softness", None)
    lookup.painted()
    page.go_forward()
    lookup.expect_in_link("softness", "hard")


def test_back_leads_from_a_lesson_to_the_lessons(explore: Explore) -> None:
    explore.go("lessons")
    for lesson in ("A dictionary", "Where the numbers come from", "What one head looks at"):
        explore.page.get_by_role("link", name=lesson, exact=True).click()
        expect(explore.page.locator("h3").first).not_to_have_text("Lessons")
        explore.settled()
        explore.page.go_back()
        expect_page(explore.page, "Lessons")
        explore.settled()


def test_a_link_sets_what_the_page_before_it_has_too_and_so_does_back(explore: Explore) -> None:
    page = explore.page
    heading = page.get_by_role("heading", name="Mass kept by each head")
    explore.go("masks?look=For+engineers&lesson=09-windows-and-sinks&lesson-step=5")
    expect(heading).to_be_visible()
    explore.settled()
    page.get_by_role("link", name="Other similarities").click()
    expect(page.get_by_role("tabpanel", name="Normalizers")).to_be_visible()
    explore.expect_in_link("look", "Normalizers")
    explore.settled()
    page.go_back()
    expect(heading).to_be_visible()


def test_a_link_in_place_changes_the_picture_of_the_same_page(masks: Masks) -> None:
    page = masks.open("?mask-b=window&lesson=08-causal&lesson-step=5").page
    expect(page.locator(".attnviz-mistake")).to_have_count(1)  # where the mask is folded
    page.get_by_role("link", name="Windows and sinks").click()
    expect(page.locator(".st-key-map-b .attnviz-sentence")).to_have_text(re.compile("0.46"))
    expect(page.locator(".attnviz-mistake")).to_have_count(0)
    # Nor is anything of it left where another page was open before.
    masks.settled()
    page.get_by_role("link", name="Start").first.click()
    page.locator(GROUPS).get_by_role("link", name="Masks", exact=True).click()
    masks.painted()
    expect(masks.words("B")).to_have_value("causal")
    np.testing.assert_array_equal(np.isnan(np.array(masks.weights(masks.b), dtype=float)), ~np.tri(16, dtype=bool))


def test_a_link_in_place_keeps_the_language_of_the_link_before(lookup: Lookup) -> None:
    page = lookup.page
    page.goto(f"{lookup.address}/?lang=de")
    expect(page.get_by_role("link", name="Lektionen", exact=True)).to_be_visible()
    expect(page).to_have_url(f"{lookup.address}/?lang=de")
    page.goto(f"{lookup.address}/lookup?lang=de&lesson=de-03-aehnlichkeiten")
    page.get_by_role("link", name="Weiter →").click()
    expect(page.locator(".attnviz-ask")).to_contain_text("√2")
    lookup.expect_in_link("lang", "de")
    lookup.settled()
    page.go_back()
    expect(page.locator(".attnviz-ask")).to_contain_text("Das Skalarprodukt")
    lookup.expect_in_link("lang", "de")


def test_enter_takes_no_other_option_where_the_typed_one_is_chosen(browser: Browser, address: str) -> None:
    """Not the scaled dot product, whose name ends so, where the dot product is typed."""
    with opened(browser, address, kind=AppPage) as app:
        app.page.goto(f"{address}/scores?similarities=Dot&similarities=Cosine")
        app.settled()
        app.page.get_by_text("Which similarities").click()
        field = app.page.locator(".st-key-similarities input")
        app.offered(field, "Scaled dot", lambda option: option.wait_for(timeout=4_000), typed="Dot")
        field.press("Enter")
        app.settled()
        expect(app.page.locator(".st-key-similarities [data-tag]")).to_have_text(["Dot", "Cosine"])
