"""The Effects page in a real browser: heads and words are taken away, and links lead to Why and back."""

from contextlib import ExitStack
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Locator, expect

from attnviz.models import MINILM, TRANSLATOR
from tests.support.browser import AppPage, Browser, opened, shared

SMALL = f"?why-model={TRANSLATOR}"
MEASURED = "Each head and each MLP has been measured"


class Effects(AppPage):
    """The Effects page."""

    path, charts = "effects", ("effects-grid",)

    @property
    def answer(self) -> Locator:
        return self.page.locator(".attnviz-summary:visible").first

    @property
    def word(self) -> Locator:
        return self.page.locator(".attnviz-summary:visible").last

    @property
    def largest(self) -> Locator:
        return self.page.locator(".attnviz-shares:visible tbody tr")

    @property
    def head(self) -> Locator:
        return self.page.locator("p").filter(has_text="Without the head").first  # of two runs

    def measured(self) -> None:
        """Waits until every head has been measured."""
        expect(self.page.get_by_text(MEASURED)).to_be_visible(timeout=180_000)
        self.settled()
        expect(self.heatmap).to_have_attribute("data-ready", "true")

    def fits(self) -> bool:
        """Whether nothing has to be scrolled to the side."""
        return self.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.fixture
def effects(browser: Browser, address: str):
    with shared(browser, address, kind=Effects) as app:
        yield app


def test_heads_are_measured_and_a_click_chooses_one(effects: Effects) -> None:
    effects.open(SMALL)
    expect(effects.answer).to_have_text("Now the logit of “est” above that of “rouge” is 7.36.")
    effects.measured()
    expect(effects.largest).to_have_count(10)
    expect(effects.largest.nth(1)).to_contain_text("decoder 1 cross, head 0−1.19")
    expect(effects.head).to_contain_text("Decoder 1 cross, head 0 looks from “rouge” most at “is”")
    effects.stage.focus()
    for key in ("ArrowRight", "ArrowDown", "Enter"):
        effects.page.keyboard.press(key)
    expect(effects.head).to_contain_text("Encoder 1, head 0 looks from “is” most at “red”")
    effects.page.get_by_role("link", name="decoder 1 cross, head 3").click()
    effects.expect_in_link("effects-head", "decoder+1+cross%2C+head+3")
    expect(effects.head).to_contain_text("Decoder 1 cross, head 3 looks from")


def test_a_head_leads_to_why_and_back(effects: Effects) -> None:
    effects.open(f"{SMALL}&effects-head=decoder+1+cross,+head+3")
    effects.measured()
    effect = effects.head.inner_text()
    effects.page.get_by_role("link", name="Why this share?").click()
    effects.expect_in_link("term", "5.3.4")
    expect(effects.answer).to_contain_text("The logit of “est” is 7.36 above that of “rouge”")
    effects.page.get_by_role("link", name="What happens without it?").click()
    effects.expect_in_link("effects-head", "decoder+1+cross%2C+head+3")
    expect(effects.head).to_have_text(effect)


def test_a_word_is_hidden_from_all_heads_or_from_a_layer(effects: Effects) -> None:
    effects.open(SMALL)
    expect(effects.word).to_have_text("Without “is”, the logit of “est” above that of “rouge” changes most: by −8.23.")
    effects.measured()
    menu = effects.page.get_by_role("combobox", name="Hidden from")
    menu.scroll_into_view_if_needed()  # while a page scrolls, an open menu closes
    effects.settled()
    menu.click()
    effects.page.get_by_role("option", name="encoder 1", exact=True).click()
    effects.expect_in_link("hidden-from", "encoder+1")
    expect(effects.word).to_contain_text("Without “red”")


def test_what_a_tab_does_not_use_is_not_there_and_kept(effects: Effects) -> None:
    effects.go(f"effects{SMALL}&measure=logit&says=rouge&inspect=More&effects-more=Circuits+of+a+head")
    question = effects.page.get_by_role("combobox", name="Says")
    expect(effects.page.get_by_text("A head writes with its OV circuit")).to_be_visible()
    expect(question).to_be_hidden()
    effects.page.get_by_role("tab", name="Heads and words").click()
    expect(question).to_be_visible()
    expect(question).to_have_value("rouge")
    effects.expect_in_link("measure", "logit")


def test_what_cannot_be_measured_keeps_the_last_effects(effects: Effects) -> None:
    effects.open(SMALL)
    effects.measured()
    other = effects.page.get_by_role("combobox", name="Rather than")
    other.click()
    other.fill("#99999999")
    effects.page.keyboard.press("Enter")
    expect(effects.alert).to_contain_text("There is no token 99999999")
    effects.settled()
    expect(effects.largest.nth(1)).to_contain_text("decoder 1 cross, head 0−1.19")


def test_a_phone_has_all_of_it(browser: Browser, address: str) -> None:
    with shared(browser, address, 390, 844, kind=Effects) as app:
        app.open(f"?why-model={MINILM}&effects-head=encoder+2,+head+3")
        app.measured()
        expect(app.answer).to_contain_text("cosine")
        expect(app.head).to_contain_text("Without the head")
        assert app.fits()


def test_visitors_with_texts_of_their_own_see_no_error(browser: Browser, address: str) -> None:
    texts = ["The sky is", "The grass is", "The snow is"]  # one more than a model keeps, which only heavy work shows
    with ExitStack() as room:
        pages = [room.enter_context(opened(browser, address, kind=Effects)) for _ in texts]
        for app, text in zip(pages, texts, strict=True):
            app.go(f"effects?{urlencode({'text': text})}")
        for app in [*pages, *pages]:  # the second time when all have asked
            expect(app.answer).to_contain_text("Now the logit of")
            expect(app.page.get_by_text("heads and MLPs so far").or_(app.page.get_by_text(MEASURED))).to_be_visible()
            expect(app.page.get_by_test_id("stException")).to_have_count(0)
            expect(app.alert).to_have_count(0)
            app.page.reload()
