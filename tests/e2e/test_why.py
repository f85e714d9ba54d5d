"""The Why page in a real browser: a sum, its terms, and the way from one sum to the next."""

import csv
import re

import pytest
from playwright.sync_api import Locator, expect

from attnviz.models import MINILM, TRANSLATOR
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

    def fits(self) -> bool:
        """Whether nothing has to be scrolled to the side."""
        return self.page.evaluate("document.documentElement.scrollWidth <= innerWidth")

    def menu(self, label: str) -> Locator:
        return self.page.get_by_role("combobox", name=label)


@pytest.fixture
def why(browser: Browser, address: str):
    with shared(browser, address, kind=Why) as app:
        yield app


def test_a_term_of_the_table_is_opened(why: Why) -> None:
    why.open()
    expect(why.answer).to_contain_text("443 times as likely")
    expect(why.page.get_by_text(JOHN)).to_be_visible()
    expect(why.terms).to_have_count(10)
    chosen = why.terms.filter(has_text="24.4")
    chosen.get_by_role("link").click()
    why.expect_in_link("term", "24.4.13")
    expect(why.page.get_by_text("It looks most at “Mary”, and directly lowers the logit of “Mary”.")).to_be_visible()
    expect(chosen).to_have_class("attnviz-chosen")


def test_a_cell_of_the_grid_is_opened(why: Why) -> None:
    why.open()
    grid = why.chart("why-grid").locator(".attnviz-stage")
    grid.focus()
    for _ in range(30):
        why.page.keyboard.press("ArrowRight")
    for _ in range(9):
        why.page.keyboard.press("ArrowDown")
    why.page.keyboard.press("Enter")
    why.expect_in_link("term", "mlp.28.13")
    expect(why.page.get_by_text("these are its parts with")).to_be_visible()


def test_the_largest_is_followed_and_the_trail_leads_back(why: Why) -> None:
    why.open()
    why.page.get_by_role("link", name="Follow the largest").click()
    why.expect_in_link("trail", "value.23.3.13.9")
    expect(why.answer).to_contain_text("48% of the +6.09")
    expect(why.trail).to_have_count(2)
    expect(why.page.locator(".st-key-why-circuit .attnviz-chart")).to_have_attribute("data-ready", "true")
    expect(why.page.get_by_role("link", name="Follow the largest")).to_have_count(0)  # MLPs are an end
    why.trail.first.get_by_role("link").click()
    why.expect_in_link("trail", None)
    expect(why.trail).to_have_count(0)


def test_where_a_head_looks_is_asked_from_its_term(why: Why) -> None:
    why.open("?term=24.4.13")
    mary = why.sources.filter(has_text="Mary")
    mary.get_by_role("link", name="by the query").click()
    why.expect_in_link("trail", "query.24.4.13.1")
    expect(why.answer).to_contain_text("The score of “Mary” is 6.06 above")
    expect(why.terms.first).to_contain_text("23.0")


def test_the_question_is_a_sentence_with_menus(why: Why) -> None:
    why.open()
    other = why.menu("Rather than")
    other.click()
    other.fill("London")
    why.page.keyboard.press("Enter")
    why.expect_in_link("rather-than", "London")
    expect(why.answer).to_contain_text("above that of “London”")
    why.settled()
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


def test_another_question_drops_the_opened_terms(why: Why) -> None:
    why.open("?trail=value.23.3.13.9&term=mlp.0.9")
    text = why.page.get_by_role("textbox", name="Text")
    text.fill("The capital of France is")
    text.press("Enter")
    expect(why.answer).to_contain_text("The logit of “Paris”")
    why.expect_in_link("trail", None)
    why.expect_in_link("term", None)
    expect(why.trail).to_have_count(0)
    expect(why.alert).to_have_count(0)


def test_all_large_terms_are_drawn(why: Why) -> None:
    why.open()
    why.page.get_by_text("Five steps").click()
    why.expect_in_link("tree", "true")
    circuit = why.page.locator(".st-key-why-circuit .attnviz-chart")
    expect(circuit).to_have_attribute("data-ready", "true")
    assert int(circuit.get_attribute("data-rows") or 0) >= 12


def test_three_questions_to_begin_with(why: Why) -> None:
    why.open()
    examples = why.page.locator(".attnviz-why-examples")
    expect(examples.get_by_role("link")).to_have_count(3)
    examples.get_by_role("link", name="A word again").click()
    expect(why.answer).to_contain_text("The logit of “Baker”")
    step = why.page.locator(".attnviz-why-step")
    for number in (2, 3):
        step.get_by_role("link", name="Next").click()
        expect(step.locator("b")).to_have_text(f"{number}/3")
    expect(step).to_contain_text("an induction circuit")
    expect(why.terms.first).to_contain_text("16.0")


def test_a_token_that_is_not_there_keeps_the_last_sum(why: Why) -> None:
    why.open()
    other = why.menu("Rather than")
    other.click()
    other.fill("#99999999")
    why.page.keyboard.press("Enter")
    expect(why.alert).to_contain_text("There is no token 99999999")
    why.settled()
    expect(why.answer).to_contain_text("443 times as likely")


def test_a_text_that_cannot_be_read_keeps_the_last_sum(why: Why) -> None:
    why.open("?rather-than=London")
    text = why.page.get_by_role("textbox", name="Text")
    text.fill("word " * 300)
    text.press("Enter")
    expect(why.alert).to_contain_text("Give it at most")
    why.settled()
    expect(why.answer).to_contain_text("above that of “London”")
    text.fill("The capital of France is")
    text.press("Enter")
    expect(why.answer).to_contain_text("The logit of “Paris”")
    expect(why.alert).to_have_count(0)


@pytest.mark.parametrize(
    ("model", "sentence"),
    [(MINILM, "The score of “animal”"), (TRANSLATOR, "The logit of “")],
    ids=["MiniLM", "translator"],
)
def test_other_models_are_asked(why: Why, model: str, sentence: str) -> None:
    why.open(f"?why-model={model}")
    expect(why.answer).to_contain_text(sentence)
    expect(why.terms).to_have_count(10)


def test_shares_are_downloaded(why: Why) -> None:
    why.open()
    why.page.get_by_role("button", name="Download", exact=True).click()
    with why.page.expect_download() as download:
        why.page.get_by_role("button", name="Shares as CSV").click()
    with open(download.value.path(), encoding="utf-8-sig") as file:
        rows = list(csv.reader(file))[1:]
    assert sum(float(row[-1]) for row in rows) == pytest.approx(6.094, abs=1e-3)
    why.page.keyboard.press("Escape")


def test_a_phone_has_all_of_it(browser: Browser, address: str) -> None:
    with shared(browser, address, 390, 844, kind=Why) as app:
        app.open("?trail=value.23.3.13.9")
        assert app.fits()
        expect(app.answer).to_contain_text(re.compile("48% of the"))
