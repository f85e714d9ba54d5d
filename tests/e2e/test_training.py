"""How attention forms, in a real browser: the timeline, and a training that is started and stopped."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, expect

from attnviz.translator import load, training_log
from tests.support.browser import AppPage, Browser, opened

CATS = "the small black cat does not look at the birds ."
TAB = f"?tab=How+attention+forms&english={CATS.replace(' ', '+')}"
CURVES = ("curve-loss", "curve-exact", "curve-agreement")


class Forms(AppPage):
    """The tab of the Transformer page on which attention forms."""

    path, charts = "transformer", ("forms-map", "forms-cross", "forms-encoder", "forms-decoder", *CURVES)

    @property
    def made(self) -> Locator:
        """What the translator of the chosen step writes."""
        return self.page.locator(".attnviz-made")

    @property
    def slider(self) -> Locator:
        return self.page.get_by_role("slider", name="Steps of training")

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name, exact=True)

    def marked(self, curve: str) -> tuple[int, float]:
        """The step and the value at which a curve has its mark."""
        script = "e => { const d = e.data.find(d => d.mode === 'markers'); return [d.x[0] ** 2, d.y[0]] }"
        x, y = self.chart(curve).locator(".attnviz-graph").evaluate(script)
        return round(x), y

    def marks_chosen_step(self) -> bool:
        """Whether the curves have their mark at the step of the slider, which is above 0."""
        return self.marked("curve-loss")[0] == int(self.slider.get_attribute("aria-valuetext") or "") > 0

    def weights(self) -> list[list[float]]:
        """The large map, row by row."""
        script = "e => { const { z } = e.data[0]; return Array.from(z, row => Array.from(row)) }"
        return self.heatmap.locator(".attnviz-graph").evaluate(script)

    def train(self, similarity: str) -> None:
        """Trains until a few steps are seen, with a map of them, and stops."""
        self.choose("train-similarity", similarity)
        self.button("Train").click()
        step = self.page.get_by_text(re.compile(r"Step [1-9][0-9]* of 1,000 · loss \d\.\d\d · about \d+ s left"))
        expect(step).to_be_visible()
        expect(self.made).to_contain_text(re.compile("After [1-9]"))
        self.painted()
        self.button("Stop").click()
        stopped = rf"Stopped: {similarity}, seed 0\. What it learned until step \d+ stays\."
        expect(self.alert).to_have_text(re.compile(stopped))
        expect(self.button("Train")).to_be_enabled()  # in the run after the last one by the clock
        self.painted()


@pytest.fixture
def forms(browser: Browser, address: str) -> Iterator[Forms]:
    with opened(browser, address, kind=Forms) as page:
        yield page


def test_the_timeline_goes_from_random_to_trained(forms: Forms) -> None:
    evaluations = {one.step: one for one in training_log().evaluations}
    forms.open(f"{TAB}&step=200")
    text = load(step=200).translate(CATS).text
    expect(forms.made).to_have_text(f"After 200 steps it writes{text}")
    assert text == "le petit chat noir ne marche pas les oiseaux."
    expect(forms.made.locator("s")).to_have_text("marche")
    assert forms.marked("curve-loss") == (200, evaluations[200].loss)
    assert forms.marked("curve-exact") == (200, pytest.approx(evaluations[200].exact))
    before = forms.weights()
    assert len(before) == 11  # the words of the right translation and its end, whatever it writes
    forms.slider.press("ArrowLeft")
    expect(forms.made).to_contain_text("After 150 steps")
    forms.expect_in_link("step", "150")
    forms.painted()
    assert forms.marked("curve-exact") == (150, pytest.approx(evaluations[150].exact))
    assert len(forms.weights()) == len(before)
    assert forms.weights() != before
    # Any head can be looked at; the curve is that of the head that agrees best in the end, unless it is one of these.
    decoder = forms.chart("forms-decoder")
    decoder.scroll_into_view_if_needed()
    forms.page.mouse.click(*forms.place(decoder, 0, 0, 2, 4))
    forms.expect_in_link("map", "Decoder%2C+layer+0%2C+head+0")
    expect(forms.heatmap.locator(".attnviz-stage")).to_have_attribute("aria-label", re.compile("Decoder"))


def test_a_training_is_started_and_stopped_and_again_with_additive_scores(forms: Forms) -> None:
    forms.page.goto(f"{forms.address}/{forms.path}{TAB}&training=Train+in+this+session")
    forms.train("scaled dot")
    assert forms.marks_chosen_step()
    forms.slider.press("Home")
    expect(forms.made).to_contain_text("After 0 steps it writes")
    forms.expect_in_link("trained-step", "0")
    forms.train("additive")
    assert forms.marks_chosen_step()
