"""The Why page in a real browser: a sum, its terms, and the way from one sum to the next."""

import csv

import pytest
from playwright.sync_api import Locator, expect

from tests.support.browser import AppPage, Browser, shared

UNFOLDED = """() => document.querySelector(".st-key-more").getAnimations({ subtree: true })
  .every((one) => one.playState !== "running")"""
JOHN = "It looks most at “John”, and directly lowers the logit of “John”."


class Why(AppPage):
    """The Why page."""

    path, charts = "why", ("why-grid", "why-sum", "why-words")

    @property
    def answer(self) -> Locator:
        return self.page.locator(".attnviz-summary")

    @property
    def trail(self) -> Locator:
        return self.page.locator(".attnviz-trail li")

    @property
    def terms(self) -> Locator:
        return self.page.locator(".attnviz-shares").first.locator("tbody tr")

    @property
    def sources(self) -> Locator:
        return self.page.locator(".attnviz-shares").last.locator("tbody tr")

    def menu(self, label: str) -> Locator:
        return self.page.get_by_role("combobox", name=label)


@pytest.fixture
def why(browser: Browser, address: str):
    with shared(browser, address, kind=Why) as app:
        yield app


def test_terms_are_opened_from_a_table_a_grid_and_a_trail(why: Why) -> None:
    why.open()
    page = why.page
    expect(why.answer).to_contain_text("443 times as likely")
    expect(page.get_by_text(JOHN)).to_be_visible()
    expect(why.terms).to_have_count(10)
    chosen = why.terms.filter(has_text="24.4")
    chosen.get_by_role("link").click()
    why.expect_in_link("term", "24.4.13")
    expect(page.get_by_text("It looks most at “Mary”, and directly lowers the logit of “Mary”.")).to_be_visible()
    expect(chosen).to_have_class("attnviz-chosen")
    why.painted()
    why.chart("why-grid").locator(".attnviz-stage").focus()
    for key, times in (("ArrowRight", 30), ("ArrowDown", 9), ("Enter", 1)):
        for _ in range(times):
            page.keyboard.press(key)
    why.expect_in_link("term", "mlp.28.13")
    expect(page.get_by_text("these are its parts with")).to_be_visible()
    why.settled()

    page.get_by_role("link", name="Follow the largest").click()
    why.expect_in_link("trail", "value.23.3.13.9")
    expect(why.answer).to_contain_text("48% of the +6.09")
    expect(why.trail).to_have_count(2)
    circuit = page.locator(".st-key-why-circuit .attnviz-chart")
    expect(circuit).to_have_attribute("data-ready", "true")
    expect(page.get_by_role("link", name="Follow the largest")).to_have_count(0)  # MLPs are an end
    why.settled()
    why.trail.first.get_by_role("link").click()
    why.expect_in_link("trail", None)
    expect(why.trail).to_have_count(0)

    why.open("?term=24.4.13")
    why.sources.filter(has_text="Mary").get_by_role("link", name="by the query").click()
    why.expect_in_link("trail", "query.24.4.13.1")
    expect(why.answer).to_contain_text("The score of “Mary” is 6.06 above")
    expect(why.terms.first).to_contain_text("23.0")


def test_the_question_is_a_sentence_and_what_is_refused_keeps_the_sum(why: Why) -> None:
    why.open()
    other = why.menu("Rather than")
    other.click()
    other.fill("London")
    why.page.keyboard.press("Enter")
    why.expect_in_link("rather-than", "London")
    expect(why.answer).to_contain_text("above that of “London”")
    why.settled()
    text = why.page.get_by_role("textbox", name="Text")
    text.fill("word " * 300)
    text.press("Enter")
    expect(why.alert).to_contain_text("Give it at most")
    why.settled()
    expect(why.answer).to_contain_text("above that of “London”")
    why.open()
    other.click()
    other.fill("#99999999")
    why.page.keyboard.press("Enter")
    expect(why.alert).to_contain_text("There is no token 99999999")
    why.settled()
    expect(why.answer).to_contain_text("443 times as likely")
    why.open()
    why.page.get_by_text("More", exact=True).click()
    expect(why.menu("Question")).to_be_visible()
    why.until(UNFOLDED)  # a list that opens in something that moves is closed
    why.menu("Question").click()
    why.page.get_by_role("option", name="Where a head looks").click()
    why.expect_in_link("question", "Where+a+head+looks")
    expect(why.answer).to_contain_text("The score of “Mary” is 6.06 above the mean")
    why.menu("Rather than at").click()
    why.page.get_by_role("option", name="0 · When").click()
    expect(why.answer).to_contain_text("6.9 times its weight")


def test_another_text_drops_the_opened_terms_and_examples_are_three_steps(why: Why) -> None:
    why.open("?trail=value.23.3.13.9&term=mlp.0.9")
    text = why.page.get_by_role("textbox", name="Text")
    text.fill("The capital of France is")
    text.press("Enter")
    expect(why.answer).to_contain_text("The logit of “Paris”")
    why.expect_in_link("trail", None)
    why.expect_in_link("term", None)
    expect(why.trail).to_have_count(0)
    expect(why.alert).to_have_count(0)
    why.settled()
    examples, step = why.page.locator(".attnviz-why-examples"), why.page.locator(".attnviz-why-step")
    expect(examples.get_by_role("link")).to_have_count(3)
    examples.get_by_role("link", name="A word again").click()
    expect(why.answer).to_contain_text("The logit of “Baker”")
    for number in (2, 3):
        step.get_by_role("link", name="Next").click()
        expect(step.locator("b")).to_have_text(f"{number}/3")
    expect(step).to_contain_text("an induction circuit")
    expect(why.terms.first).to_contain_text("16.0")


def test_shares_are_downloaded(why: Why) -> None:
    why.open("?tree=true")
    circuit = why.page.locator(".st-key-why-circuit .attnviz-chart")
    expect(circuit).to_have_attribute("data-ready", "true")
    assert int(circuit.get_attribute("data-rows") or 0) >= 12  # all large terms are drawn
    why.page.get_by_role("button", name="Download", exact=True).click()
    with why.page.expect_download() as download:
        why.page.get_by_role("button", name="Shares as CSV").click()
    with open(download.value.path(), encoding="utf-8-sig") as file:
        rows = list(csv.reader(file))[1:]
    assert sum(float(row[-1]) for row in rows) == pytest.approx(6.094, abs=1e-3)
    why.page.keyboard.press("Escape")
