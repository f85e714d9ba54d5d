"""The Effects page in a real browser: heads and words are taken away, and links lead to Why and back."""

from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from attnviz.models import TRANSLATOR
from tests.support.browser import AppPage, Browser, place_of, shared

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


def test_heads_and_words_are_measured_chosen_hidden_and_asked_about(browser: Browser, address: str) -> None:
    with shared(browser, address, kind=Effects) as effects:
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

        expect(effects.word).to_have_text(
            "Without “is”, the logit of “est” above that of “rouge” changes most: by −8.23."
        )
        effects.settled()
        menu = effects.page.get_by_role("combobox", name="Hidden from")
        menu.scroll_into_view_if_needed()  # while a page scrolls, an open menu closes
        effects.settled()
        menu.click()
        effects.page.get_by_role("option", name="encoder 1", exact=True).click()
        effects.expect_in_link("hidden-from", "encoder+1")
        expect(effects.word).to_contain_text("Without “red”")

        effects.page.get_by_role("link", name="decoder 1 cross, head 3").click()
        effects.expect_in_link("effects-head", "decoder+1+cross%2C+head+3")
        expect(effects.head).to_contain_text("Decoder 1 cross, head 3 looks from")
        effect = effects.head.inner_text()
        effects.settled()
        effects.page.get_by_role("link", name="Why this share?").click()
        effects.expect_in_link("term", "5.3.4")
        expect(effects.answer).to_contain_text("The logit of “est” is 7.36 above that of “rouge”")
        effects.settled()
        effects.page.get_by_role("link", name="What happens without it?").click()
        effects.expect_in_link("effects-head", "decoder+1+cross%2C+head+3")
        expect(effects.head).to_have_text(effect)


def test_what_a_tab_does_not_use_is_not_there_and_kept(browser: Browser, address: str) -> None:
    with shared(browser, address, kind=Effects) as effects:
        effects.go(f"effects{SMALL}&measure=logit&says=rouge&inspect=More&effects-more=Circuits+of+a+head")
        question = effects.page.get_by_role("combobox", name="Says")
        expect(effects.page.get_by_text("A head writes with its OV circuit")).to_be_visible()
        expect(question).to_be_hidden()
        effects.page.get_by_role("tab", name="Heads and words").click()
        expect(question).to_have_value("rouge")
        effects.expect_in_link("measure", "logit")


class PictureEffects(Effects):
    """The Effects page of a model that sees pictures."""

    charts = "whole-picture", "hidden-picture"


@pytest.mark.parametrize("size", [(1280, 800), (390, 844)], ids=["laptop", "phone"])
def test_a_region_is_marked_by_dragging_and_by_keys(
    browser: Browser, address: str, saved: Path, size: tuple[int, int]
) -> None:
    with shared(browser, address, *size, kind=PictureEffects) as effects:
        effects.open(f"?why-model={saved / 'vit'}&region=1")
        said = effects.page.locator(".attnviz-summary")
        expect(said).to_contain_text("1 of 16 patches gray")
        stage = effects.chart("whole-picture").locator(".attnviz-stage")

        def drag(*ends: tuple[int, int]) -> None:
            effects.painted()
            stage.scroll_into_view_if_needed()
            area = stage.locator(".nsewdrag").bounding_box()
            assert area
            first, last = (
                (area["x"] + (column + 0.5) * area["width"] / 4, area["y"] + (row + 0.5) * area["height"] / 4)
                for row, column in ends
            )
            effects.page.mouse.move(*first)
            effects.page.mouse.down()
            effects.page.mouse.move(*last, steps=3)
            effects.page.mouse.up()

        drag((0, 0), (1, 2))
        expect(said).to_contain_text("7 of 16 patches gray")
        effects.expect_in_link("region", "ee01")
        drag((3, 3), (3, 3))  # a click on a patch of the region takes it out
        expect(said).to_contain_text("6 of 16 patches gray")
        drag((1, 2), (0, 2))
        expect(said).to_contain_text("4 of 16 patches gray")
        effects.painted()
        effects.page.mouse.move(0, 0)  # no patch is read
        stage.focus()
        for key in ("ArrowDown", "Space"):
            effects.page.keyboard.press(key)
        expect(said).to_contain_text("3 of 16 patches gray")
        expect(stage).to_be_focused()
        effects.page.keyboard.press("Space")
        expect(said).to_contain_text("4 of 16 patches gray")
        effects.choose("Hidden as", "masked")
        expect(said).to_contain_text("4 of 16 patches masked")


def test_a_finger_scrolls_up_and_down_and_marks_across(browser: Browser, address: str, saved: Path) -> None:
    with shared(browser, address, 390, 844, touch=True, kind=PictureEffects) as effects:
        effects.open(f"?why-model={saved / 'vit'}&region=1")
        effects.painted()
        said, drawn = effects.page.locator(".attnviz-summary"), effects.chart("whole-picture").locator(".nsewdrag")
        scrolled = "() => document.querySelector('.stMain').scrollTop"

        def patch(row: int, column: int) -> tuple[float, float]:
            drawn.scroll_into_view_if_needed()
            place = place_of(drawn)
            return place["x"] + (column + 0.5) * place["width"] / 4, place["y"] + (row + 0.5) * place["height"] / 4

        x, y = patch(2, 0)
        before = effects.page.evaluate(scrolled)
        effects.swipe((x, y), (x, y - 150))
        effects.until(f"before => ({scrolled})() > before", before)
        effects.swipe(patch(2, 0), patch(2, 2))
        expect(said).to_contain_text("4 of 16 patches gray")  # none of those that the first swipe went over
