"""Transformer in a real browser: in and out by clicks, step by step, what a number came from, and the other tabs."""

import re
from collections.abc import Iterator
from typing import Self

import pytest
from playwright.sync_api import Locator, Page, expect

from attnviz.models import SMOLLM2
from attnviz.models.smollm2 import smollm2
from attnviz.models.translator import translator
from attnviz.pages.transformer.model_activations import model_activations
from attnviz.sources.model import TRANSLATED
from tests.support.browser import AppPage, Browser, shared


class Path(AppPage):
    """The forward pass on the Transformer page."""

    path = "transformer"

    def __init__(self, page: Page, address: str) -> None:
        self.page, self.address = page, address
        self.root = page.locator(".attnviz-path")
        self.caption = self.root.locator(".path-caption")

    def painted(self, rows: int | None = None) -> Self:
        self.until("() => document.querySelector('.attnviz-path')?.dataset.ready === 'true'")
        return self

    def opened(self, name: str) -> None:
        """Waits until a layer or a part is open, in the picture and in the link."""
        expect(self.root).to_have_attribute("data-open", name)
        self.expect_in_link("open", name.replace(" ", "\\+") if name else None)
        self.painted()

    def expect_in_link(self, name: str, value: str | None) -> None:
        pattern = rf"[?&]{name}={value}(&|$)" if value is not None else rf"^(?!.*[?&]{name}=)"
        self.page.wait_for_url(re.compile(pattern), wait_until="commit")

    def part(self, name: str) -> Locator:
        return self.root.locator(f"[data-open='{name}']").first

    def button(self, name: str) -> Locator:
        return self.root.get_by_role("button", name=name, exact=True)

    def fits(self) -> bool:
        """Whether nothing has to be scrolled to the side."""
        return self.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.fixture
def way(browser: Browser, address: str, request: pytest.FixtureRequest) -> Iterator[Path]:
    with shared(browser, address, *getattr(request, "param", WIDE), kind=Path) as page:
        yield page


WIDE = (1280, 800)
IN_BOTH_SIZES = pytest.mark.parametrize("way", [WIDE, (390, 844)], ids=["wide", "phone"], indirect=True)


@IN_BOTH_SIZES
def test_in_and_out_by_clicks(way: Path) -> None:
    way.open()
    expect(way.root.locator(".path-drawn th")).to_have_text("voiture")
    assert way.fits()
    way.part("decoder 1").click(position={"x": 12, "y": 8})
    way.opened("decoder 1")
    assert way.fits()
    way.button("Head 2").click()
    expect(way.button("Head 2")).to_have_attribute("aria-pressed", "true")
    way.expect_in_link("path-head", "2")
    way.part("decoder 1 cross heads").click()
    way.opened("decoder 1 cross heads")
    assert way.fits()
    record = model_activations(translator(), TRANSLATED, count=3)
    number = float(record["decoder 1 cross heads"].values[2, 1, 0])
    canvas = way.root.locator(".path-grid canvas").last
    canvas.focus()
    way.page.keyboard.press("ArrowDown")
    for _ in range(16):
        way.page.keyboard.press("ArrowLeft")
    expect(way.caption).to_have_text(re.compile(r"^H\[la, 1\] = .* = \S+\.$"))
    text = way.caption.inner_text().rsplit(" = ", 1)[1].rstrip(".").replace("−", "-")
    assert float(text) == pytest.approx(number, abs=0.006)
    expect(way.root.locator(".path-operand")).to_have_count(2)  # a row of weights and a column of values
    way.root.locator(".path-go").first.click()
    way.opened("decoder 1 cross weights")
    way.page.keyboard.press("Escape")
    way.opened("decoder 1")
    way.root.locator(".path-trail").get_by_role("button", name="Whole model").click()
    way.opened("")


def test_the_steps_go_on_by_themselves_and_words_are_drawn_again(way: Path) -> None:
    way.open()
    outcome = way.root.locator(".path-outcome")
    expect(outcome).to_be_visible()
    way.button("Play").click()
    expect(way.root).to_have_attribute("data-stage", "1")
    expect(outcome).to_be_hidden()
    way.button("Pause").click()
    expect(way.root).to_have_attribute("data-playing", "false")
    stage = int(way.root.get_attribute("data-stage") or 0)
    way.page.keyboard.press("ArrowRight")
    expect(way.root).to_have_attribute("data-stage", str(stage + 1))
    expect(way.caption.locator("b")).not_to_be_empty()
    way.button("One step back").click()
    expect(way.root).to_have_attribute("data-stage", str(stage))
    for _ in range(stage + 1):
        way.page.keyboard.press("ArrowLeft")
    expect(way.root).to_have_attribute("data-stage", "")
    way.page.keyboard.press("ArrowLeft")  # the last step
    expect(outcome).to_be_visible()
    expect(way.caption).to_contain_text("is written")

    way.page.emulate_media(reduced_motion="reduce")  # then nothing moves
    way.open("?temperature=3.0")
    before = way.root.locator(".path-written").inner_text()
    way.button("Play").click()
    expect(way.root).to_have_attribute("data-stage", "1")
    opacities = way.root.locator(".path-dot").evaluate_all("all => all.map(one => one.style.opacity)")
    assert set(opacities) == {"0"}
    assert way.root.locator(".path-column").nth(1).evaluate("one => one.style.opacity") == "1"
    way.open("?temperature=3.0")
    way.button("Draw again").click()
    way.expect_in_link("draw", "1")
    expect(way.root.locator(".path-written")).not_to_have_text(before)


@IN_BOTH_SIZES
def test_a_language_model_of_thirty_layers_opens_at_any_of_them(way: Path) -> None:
    way.open(f"?transformer-model={SMOLLM2}&text=The+capital+of+France+is")
    expect(way.root.locator(".path-drawn th")).to_have_text("␣Paris")
    assert way.fits()
    slim = way.root.locator(".path-frame.path-slim")
    expect(slim).to_have_count(28)
    way.part("decoder 17").click()
    way.opened("decoder 17")
    assert way.fits()
    way.button("Show the next layer").click()
    way.opened("decoder 18")
    way.button("Head 5").click()
    expect(way.button("Head 5")).to_have_attribute("aria-pressed", "true")
    way.expect_in_link("path-head", "5")
    way.part("decoder 18 attention rotated queries").click()
    way.opened("decoder 18 attention rotated queries")
    record = model_activations(smollm2(), "The capital of France is")
    number = float(record["decoder 18 attention rotated queries"].values[5, 1, 0])
    canvas = way.root.locator(".path-grid canvas").last
    canvas.focus()
    way.page.keyboard.press("ArrowDown")
    for _ in range(64):
        way.page.keyboard.press("ArrowLeft")
    expect(way.caption).to_contain_text(re.compile(r"^QR\[␣capital, 1\] = .* φ = \S+°, which grows with the position"))
    text = way.caption.inner_text().rsplit(", φ", 1)[0].rsplit(" = ", 1)[1].replace("−", "-")
    assert float(text) == pytest.approx(number, abs=0.006)
    expect(way.root.locator(".path-operand")).to_have_count(2)


def test_the_word_to_write_and_the_training_are_chosen_and_played(browser: Browser, address: str) -> None:
    with shared(browser, address, kind=AppPage) as app:
        app.go("transformer?tab=Three+uses")
        expect(app.chart("cross-map")).to_have_attribute("data-ready", "true")
        app.settled()
        app.page.get_by_role("slider", name="Word to write").press("End")
        app.expect_in_link("word", "8")
        app.page.locator(".st-key-word-play button").click()  # from the last it begins at the first
        app.expect_in_link("word", "2")
        app.page.locator(".st-key-word-play button").click()
        app.go("transformer?tab=How+attention+forms&step=1%2C200")
        written = app.page.locator(".attnviz-summary")
        expect(written).to_contain_text("After 1,200 steps it writes")
        app.page.locator(".st-key-step-play button").click()
        expect(written).to_contain_text("After 2,400 steps it writes")
        expect(app.page.locator(".st-key-step-play button")).to_contain_text("Play")
