"""The Steps page in a real browser."""

import re
from collections.abc import Iterator
from typing import Self

import pytest
from playwright.sync_api import Locator, Page, expect

from attnviz.masks import Causal
from attnviz.pages.steps.all_steps import compute_steps
from attnviz.pages.steps.computation import StepsExample
from attnviz.pages.steps.edits import Edits
from attnviz.pages.steps.sentence_example import SentenceExample
from attnviz.pages.steps.translator_example import TranslatorExample
from attnviz.translator import load
from tests.support.browser import AppPage, Browser, shared


class Steps(AppPage):
    """The Steps page."""

    path = "steps"

    def __init__(self, page: Page, address: str) -> None:
        self.page, self.address = page, address
        self.root = page.locator(".attnviz-matrices")
        self.sum = self.root.locator(".matrices-sum")
        self.alert = page.get_by_test_id("stAlert")

    def painted(self, rows: int | None = None) -> Self:
        self.until("() => document.querySelector('.attnviz-matrices')?.dataset.ready === 'true'")
        return self

    def number(self, matrix: str, row: int, column: int) -> Locator:
        return self.root.locator(f"td[data-matrix='{matrix}'][data-row='{row}'][data-column='{column}']")

    def lit(self) -> list[tuple[str, int, int]]:
        cells = self.root.locator("td.matrices-source").evaluate_all(
            "all => all.map(e => [e.dataset.matrix, Number(e.dataset.row), Number(e.dataset.column)])"
        )
        return sorted(map(tuple, cells))

    def write(self, matrix: str, row: int, column: int, text: str) -> None:
        self.number(matrix, row, column).click()
        self.root.locator("td input").fill(text)
        self.root.locator("td input").press("Enter")

    def button(self, name: str) -> Locator:
        return self.root.get_by_role("button", name=name, exact=True)

    def at(self, stage: str) -> None:
        expect(self.root).to_have_attribute("data-stage", stage)

    def bar_is_low(self) -> None:
        """What stays at the top of a phone takes less than a sixth of it."""
        assert self.root.locator(".matrices-bar").evaluate("e => e.offsetHeight") < 844 / 6

    def expect_values(self, matrix: str, example: StepsExample, edits: Edits | None = None) -> None:
        """Waits until a matrix has the numbers of the library, as far as two decimals go."""
        values = compute_steps(example, edits).matrices[matrix].values.tolist()
        texts = [
            [f"{round(value, 2) + 0.0:.2f}".replace("-inf", "−∞").replace("-", "−") for value in row] for row in values
        ]
        script = """([matrix, texts]) => texts.every((row, i) => row.every((text, j) => {
            const place = `td[data-matrix="${matrix}"][data-row="${i}"][data-column="${j}"]`;
            return document.querySelector(`.attnviz-matrices ${place}`)?.textContent.trim() === text;
        }))"""
        self.until(script, arg=[matrix, texts])


@pytest.fixture
def walk(browser: Browser, address: str) -> Iterator[Steps]:
    with shared(browser, address, kind=Steps) as page:
        yield page


def test_pointing_at_a_number_lights_its_sources_and_writes_its_sum(walk: Steps) -> None:
    walk.open("?stage=output&masked=Causal")
    found = compute_steps(SentenceExample(mask=Causal())).matrices
    walk.number("raw0", 2, 1).hover()
    expect(walk.sum).to_have_text(re.compile(r"^QKT\[sat, cat\] = "))
    assert walk.lit() == sorted([("Q0", 2, i) for i in range(4)] + [("K0", 1, i) for i in range(4)])
    # The sum that is read comes to the number that is read, as far as two decimals go.
    text = walk.sum.inner_text().split("] = ")[1].replace("−", "-")
    terms, value = text.split(" = ")
    added = 0.0
    for term in terms.split(" + "):
        first, second = (float(factor.strip("()")) for factor in term.split("·"))
        added += first * second
    assert added == pytest.approx(float(value), abs=0.1)
    assert float(value) == pytest.approx(float(found["raw0"].values[2, 1]), abs=0.005)
    walk.number("masked0", 0, 3).hover()
    expect(walk.sum).to_have_text(re.compile(r"\+ \(−∞\) = −∞$"))
    # From one to the next by the keyboard, and nothing is lit by a pointer that is gone.
    walk.number("weights0", 0, 0).focus()
    walk.page.keyboard.press("ArrowDown")
    expect(walk.sum).to_have_text(re.compile(r"^A\[cat, the\] = \S+ / \S+ = \S+$"))
    assert walk.lit() == [("exp0", 1, 0), ("sum0", 1, 0)]
    walk.at("output")


def test_a_number_is_written_and_undone_and_what_is_no_number_is_refused(walk: Steps) -> None:
    walk.open("?stage=output")
    walk.expect_values("output0", SentenceExample())
    walk.write("X", 1, 1, "much")
    expect(walk.sum).to_contain_text("number, such as 0.5")
    expect(walk.root.locator("td input")).to_have_value("much")
    walk.page.keyboard.press("Escape")
    walk.write("X", 1, 1, "5000")
    expect(walk.sum).to_contain_text("A number between −1000 and 1000 is expected")
    walk.write("sum0", 1, 0, "0")
    expect(walk.sum).to_contain_text("nothing can be divided by that")
    walk.expect_values("X", SentenceExample())
    walk.expect_values("weights0", SentenceExample())
    walk.page.keyboard.press("Escape")
    walk.expect_in_link("edits", None)
    walk.write("Q0", 1, 2, "2,5")
    edits: Edits = {"Q0": {(1, 2): 2.5}}
    for matrix in ("raw0", "weights0", "output0"):
        walk.expect_values(matrix, SentenceExample(), edits)
    walk.expect_values("K0", SentenceExample())
    walk.expect_in_link("edits", "Q0.1.2_2.5")
    expect(walk.number("Q0", 1, 2)).to_have_class(re.compile("matrices-edited"))
    expect(walk.number("Q0", 1, 2)).to_be_focused()
    walk.number("Q0", 1, 2).hover()
    expect(walk.sum).to_have_text(re.compile(r"^Q\[cat, 3\] = 2.50, written by hand instead of \S+$"))
    # Opened again, the link says the same.
    walk.open(walk.page.url.split("/steps")[1])
    walk.expect_values("output0", SentenceExample(), edits)
    # Nothing written: as it was computed. Escape: nothing happened.
    walk.write("weights0", 0, 0, "1")
    walk.expect_values("output0", SentenceExample(), edits | {"weights0": {(0, 0): 1.0}})
    walk.write("weights0", 0, 0, "")
    walk.expect_values("output0", SentenceExample(), edits)
    walk.number("X", 0, 0).click()
    walk.root.locator("td input").fill("7")
    walk.page.keyboard.press("Escape")
    expect(walk.root.locator("td input")).to_have_count(0)
    walk.expect_values("X", SentenceExample())
    walk.button("Undo edits").click()
    expect(walk.button("Undo edits")).to_be_hidden()
    walk.expect_values("output0", SentenceExample())
    walk.expect_in_link("edits", None)


def test_stages_are_gone_through_by_buttons_by_keys_by_links_and_played(walk: Steps) -> None:
    walk.page.emulate_media(reduced_motion="reduce")
    walk.open()
    formula = walk.root.locator(".matrices-formula .matrices-now")
    seen = walk.root.locator("section").filter(visible=True)
    walk.at("queries")
    expect(seen).to_have_count(1)
    expect(walk.button("← Back")).to_be_hidden()
    walk.button("Next →").click()
    walk.at("keys")
    expect(seen).to_have_count(2)
    walk.button("Next →").click()
    walk.at("similarity")
    expect(formula).to_have_text(re.compile(r"Q\s*K\s*T"))
    expect(seen).to_have_count(3)
    walk.page.keyboard.press("ArrowRight")
    walk.at("scaling")
    expect(formula).to_have_text(re.compile("√"))
    walk.expect_in_link("stage", "scaling")
    walk.page.keyboard.press("ArrowLeft")
    walk.at("similarity")
    walk.page.keyboard.press("End")
    walk.at("output")
    expect(walk.button("Next →")).to_have_attribute("aria-disabled", "true")
    expect(walk.number("output0", 1, 0)).to_be_in_viewport()
    walk.button("← Back").click()
    walk.at("values")
    expect(formula).to_have_text("V")
    walk.page.keyboard.press("Home")
    walk.at("queries")
    walk.expect_in_link("stage", None)
    walk.page.keyboard.press("End")
    walk.root.get_by_role("button", name="Exponential").click()
    walk.expect_in_link("stage", "exp")
    walk.page.reload()
    walk.painted().at("exp")
    # With nothing in focus, as a presenter's remote control does it.
    walk.page.keyboard.press("PageDown")
    walk.at("softmax")
    walk.expect_in_link("stage", "softmax")
    walk.settled()
    walk.page.go_back()
    walk.at("exp")
    walk.settled()
    walk.button("Play").click()  # to the end, where it stops
    expect(walk.root).to_have_attribute("data-playing", "true")
    expect(walk.button("Pause")).to_be_visible()
    for stage in ("softmax", "values", "output"):
        walk.at(stage)
    expect(walk.root).to_have_attribute("data-playing", "false")
    expect(walk.button("Play")).to_be_visible()
    walk.expect_in_link("stage", "output")
    walk.button("Play").click()  # from the first again
    walk.at("queries")
    walk.button("Pause").click()
    walk.expect_in_link("stage", None)


def test_another_query_another_head_and_a_second_sentence(walk: Steps) -> None:
    walk.open("?heads=2&stage=heads")
    expect(walk.root.locator(".matrices-followed th").first).to_have_text("cat")
    walk.number("weights0", 3, 0).locator("xpath=..").get_by_role("rowheader").click()
    expect(walk.root.locator(".matrices-followed th").first).to_have_text("down")
    walk.expect_in_link("query", "3 · down".replace(" ", "+").replace("·", "%C2%B7"))
    walk.page.get_by_test_id("stSidebar").get_by_text("More", exact=True).click()
    walk.choose("Head shown", "Head 1")
    walk.expect_values("weights1", SentenceExample(heads=2))
    walk.number("heads", 2, 5).hover()
    assert walk.lit() == [("output1", 2, 1)]
    walk.choose("Attention", "Cross")
    walk.expect_values("weights1", SentenceExample(heads=2, second="die Katze setzte sich"))
    walk.at("heads")


def test_on_a_phone_touches_read_and_write_and_matrices_scroll(browser: Browser, address: str) -> None:
    with shared(browser, address, 390, 844, touch=True, kind=Steps) as walk:
        walk.open("?sentence=the+animal+did+not+cross+the+street+today&heads=4&stage=heads&d-k=8")
        walk.bar_is_low()
        overflow = "e => e.scrollWidth - e.clientWidth"
        assert walk.page.locator("[data-testid=stMain]").evaluate(overflow) <= 0
        wide = walk.number("heads", 0, 0).locator("xpath=ancestor::*[contains(@class, 'matrices-scroll')]")
        assert wide.evaluate(overflow) > 0  # 32 columns scroll by themselves
        walk.number("weights0", 1, 2).tap()
        expect(walk.sum).to_have_text(re.compile(r"^A\[animal, did\] = "))
        expect(walk.root.locator("td input")).to_have_count(0)
        walk.number("weights0", 1, 2).tap()
        expect(walk.root.locator("td input")).to_have_count(1)
        walk.page.keyboard.press("Escape")
        for stage in ("projection", "contributions"):
            walk.button("Next →").click()
            walk.at(stage)
        walk.bar_is_low()

        walk.open("?attention=Translator&stage=similarity")
        walk.bar_is_low()
        assert walk.page.locator("[data-testid=stMain]").evaluate(overflow) <= 0
        scroll = walk.root.locator(".matrices-scroll").first
        word, last = scroll.get_by_role("rowheader", name="petite → voiture"), walk.number("Q0", 1, 15)
        middle = "e => e.getBoundingClientRect().x + e.offsetWidth / 2"
        before = word.evaluate(middle)
        assert last.evaluate(middle) > 390
        scroll.evaluate("e => e.scrollLeft = e.scrollWidth")
        assert last.evaluate(middle) < 390
        assert abs(word.evaluate(middle) - before) <= 8  # what stands around the table goes first
        walk.number("raw0", 1, 2).tap()
        expect(walk.sum).to_have_text(re.compile(r"^QKT\[la → petite, red\] = (.*·.* \+ ){15}.*·.* = "))


def test_a_head_of_the_transformer_page_opens_with_the_numbers_that_ran(walk: Steps) -> None:
    english = "does the horse of the queen sleep near the castle ?"
    walk.go(f"transformer?open=decoder+1+attention+weights&path-head=2&text={english}")
    walk.page.get_by_role("link", name="All numbers of this head").click()
    walk.painted().at("queries")
    translation = load().translate(english)
    layer = translation.layers()[4]
    weights = layer.mechanism(layer.inputs).weights[2]
    walk.page.keyboard.press("End")
    walk.at("output")
    place = translation.decoder_inputs.index("reine"), layer.inputs.key_tokens.index("la")
    expect(walk.number("weights0", *place)).to_have_text(f"{float(weights[place]):.2f}")
    example = TranslatorExample(english, use="decoder", layer=1, head=2)
    walk.expect_values("weights0", example)
    # A number in a row and a column of two figures can be written, too.
    walk.write("Q0", 12, 15, "2.5")
    walk.expect_in_link("edits", "Q0.12.15_2.5")
    walk.expect_values("weights0", example, {"Q0": {(12, 15): 2.5}})
