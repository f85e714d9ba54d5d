"""The Transformer page in a real browser: a sentence is translated, word by word."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, expect

from attnviz.translator import load
from tests.support.browser import AppPage, Browser, shared

CATS = "the small black cat does not look at the birds ."
LONG = "my cats of a good tired boy do not go to the house here ."
LINK = "?english=" + CATS.replace(" ", "+")


class Transformer(AppPage):
    """The Transformer page."""

    path, charts = "transformer", ("lines",)

    @property
    def french(self) -> Locator:
        return self.page.locator(".attnviz-translation")

    @property
    def current_word(self) -> Locator:
        """The word that comes out in the chosen step."""
        return self.french.locator("mark")

    @property
    def play(self) -> Locator:
        return self.page.locator(".st-key-word-play button")

    def translate(self, english: str) -> None:
        box = self.page.get_by_label("English", exact=True)
        box.fill(english)
        box.press("Enter")

    def words(self) -> list[str]:
        """The French words beside the lines that are there so far."""
        script = "e => e._fullLayout.yaxis.ticktext.filter(word => !word.includes('rgba(0,0,0,0)'))"
        labels = self.chart("lines").locator(".attnviz-graph").evaluate(script)
        return [re.sub("<[^>]+>", "", label).partition(" → ")[2] for label in labels]


@pytest.fixture
def transformer(browser: Browser, address: str) -> Iterator[Transformer]:
    with shared(browser, address, kind=Transformer) as page:
        yield page


def test_a_sentence_is_translated_and_an_unknown_word_is_named(transformer: Transformer) -> None:
    transformer.open()
    expect(transformer.french).to_contain_text("la petite voiture rouge est belle.")
    transformer.translate("the old bird does not see the horses")
    expect(transformer.french).to_contain_text("le vieil oiseau ne voit pas les chevaux.")
    expect(transformer.page.locator(".attnviz-verdict")).to_have_text("Correct translation.")
    transformer.expect_in_link("english", "the+old+bird+does+not+see+the+horses")
    transformer.translate("the old birdd sleeps")
    expect(transformer.alert).to_contain_text("does not know the word “birdd”. It knows 180 words: try “bird”")
    expect(transformer.french).to_contain_text("le vieil oiseau ne voit pas les chevaux.")
    transformer.page.get_by_role("button", name="Examples").click()
    transformer.page.get_by_text("some good apples are always red .").click()
    expect(transformer.french).to_contain_text("de bonnes pommes sont toujours rouges.")
    expect(transformer.alert).to_have_count(0)
    transformer.page.get_by_role("button", name="Random sentence").click()
    expect(transformer.french).not_to_contain_text("pommes sont toujours")
    # The way back from a page with a similarity of its own.
    text = transformer.french.inner_text()
    transformer.choose_page("Lookup")
    expect(transformer.page.locator(".attnviz-result")).to_be_visible()
    transformer.choose_page("Transformer")
    transformer.painted()
    expect(transformer.french).to_have_text(text)


def test_a_link_opens_its_step_and_play_goes_on_to_the_last(transformer: Transformer) -> None:
    translation = load().translate("the red car is new .")
    slider = transformer.page.get_by_role("slider", name="Word by word")
    transformer.open("?english=the+red+car+is+new+.&word=4")
    expect(transformer.current_word).to_have_text("est")
    expect(transformer.page.locator(".attnviz-looks")).to_contain_text("When writing “est”, ")
    assert transformer.words() == ["la", "voiture", "rouge", "est"]
    slider.press("ArrowRight")
    expect(transformer.current_word).to_have_text("nouvelle")
    transformer.expect_in_link("word", "5")
    transformer.play.click()
    expect(transformer.play).to_contain_text("Pause")
    expect(transformer.current_word).to_have_text("end")
    expect(transformer.play).to_contain_text("Play")
    transformer.expect_in_link("word", "7")
    transformer.painted(len(translation.steps))
    assert transformer.words() == [*translation.french, "&lt;end&gt;"]
    # From the last it begins at the first, until it is told to stop; another sentence opens where its words cross.
    transformer.play.click()
    transformer.expect_in_link("word", "3")
    transformer.play.click()
    expect(transformer.play).to_contain_text("Play")
    transformer.settled()  # a step that was on its way when it was told to stop
    transformer.translate("who does not eat an egg")
    expect(transformer.french).to_have_text("qui ne mange pas d'œuf ? end")
    expect(transformer.current_word).to_have_text("mange")
    transformer.expect_in_link("word", None)
    transformer.page.reload()
    expect(transformer.current_word).to_have_text("mange")


def test_every_word_of_a_long_sentence_is_named_beside_the_menus(browser: Browser, address: str) -> None:
    charts = ("encoder-map", "cross-map")
    with shared(browser, address, kind=type("Uses", (Transformer,), {"charts": charts})) as transformer:
        transformer.open(f"?english={LONG.replace(' ', '+')}")
        for key in charts:
            graph = transformer.chart(key).locator(".attnviz-graph")
            labels = graph.locator(".xtick text")
            expect(labels).to_have_count(int(transformer.chart(key).get_attribute("data-columns") or 0))
            assert graph.locator(".cbaxis text").all_text_contents()[-1] == "1"


def test_a_presentation_on_a_phone_keeps_the_translation_and_its_lines(browser: Browser, address: str) -> None:
    with shared(browser, address, 390, 844, "dark", touch=True, kind=Transformer) as transformer:
        transformer.open(f"{LINK}&word=6&present=1")
        expect(transformer.current_word).to_have_text("regarde")
        expect(transformer.current_word).to_be_visible()
        expect(transformer.chart("lines")).to_be_visible()
        expect(transformer.play).to_be_visible()
        expect(transformer.page.get_by_label("English", exact=True)).to_be_hidden()
        content, window = transformer.page.locator(".stMain").evaluate("e => [e.scrollWidth, e.clientWidth]")
        assert content <= window


def test_in_a_presentation_all_three_maps_stand_on_the_first_screen(browser: Browser, address: str) -> None:
    with shared(browser, address, 1920, 1080, kind=Transformer) as transformer:
        transformer.open("?present=1")
        for use in ("encoder", "decoder", "cross"):
            chart = transformer.chart(f"{use}-map")
            expect(chart).to_have_attribute("data-ready", "true")
            assert chart.evaluate("e => e.getBoundingClientRect().bottom") <= 1080
        expect(transformer.play).to_be_visible()
        transformer.translate("the old king sees the birds .")
        expect(transformer.french).to_contain_text("vieux")
