"""The Models page in a real browser: all heads, one of them opened, and a folder that is none."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from playwright.sync_api import Locator, expect
from transformers import LlamaConfig, LlamaForCausalLM

from attnviz.figures.layer_mosaic import LEAST_WIDTH
from attnviz.models.minilm import minilm
from attnviz.text import EXAMPLE
from tests.support.browser import AppPage, Browser, shared
from tests.support.tiny_models import GROUPED, byte_fallback

LAST_LETTER_IS_VISIBLE = """option => {
    const text = document.createTreeWalker(option, NodeFilter.SHOW_TEXT).nextNode(), last = document.createRange()
    last.setStart(text, text.length - 1)
    last.setEnd(text, text.length)
    const here = last.getBoundingClientRect(), box = option.getBoundingClientRect()
    return here.left > box.left && here.right < box.right
}"""


class Models(AppPage):
    """The Models page."""

    path, charts = "models", ("heatmap", "heads")

    def naming(self) -> Locator:
        """Opens the place where a model is named that is not in the menu; gives its box, in which nothing is left."""
        self.settled()
        self.page.get_by_role("button", name="Another model").click()
        box = self.page.get_by_label("Its id on the hub, or the path of a folder")
        expect(box).to_have_count(1)  # the one before goes when its run ends
        expect(box).to_have_value("")
        return box

    def another(self, name: str) -> None:
        """Names a model that is not in the menu, after which the place for it is closed."""
        box = self.naming()
        box.fill(name)
        box.press("Enter")
        expect(box).to_have_count(0)

    def bars(self) -> list[float]:
        script = "e => Array.from(e.data[0].y)"
        return self.chart("products").locator(".attnviz-graph").evaluate(script)


@pytest.fixture
def models(browser: Browser, address: str) -> Iterator[Models]:
    with shared(browser, address, kind=Models) as page:
        yield page


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a model with 30 layers of 4 heads."""
    folder = tmp_path_factory.mktemp("models") / "deep"
    config = LlamaConfig(vocab_size=400, max_position_embeddings=128, **GROUPED | {"num_hidden_layers": 30})
    LlamaForCausalLM(config).save_pretrained(folder)
    byte_fallback().save_pretrained(folder)
    return folder


def own(layer: int, head: int) -> np.ndarray:
    """The weights as the model itself computes them."""
    kept = minilm()
    with kept.lock, torch.no_grad():
        out = kept.model(**kept.encode(EXAMPLE).batch, output_attentions=True)
    return out.attentions[layer][0, head].numpy()


def test_a_click_on_the_mosaic_opens_the_head_with_what_made_its_scores(models: Models) -> None:
    models.open("?pinned=none")
    heads = models.chart("heads")
    models.page.mouse.click(*models.cell(2, 8, heads))
    models.expect_in_link("layer", "encoder+2")
    models.expect_in_link("head", "Head+8")
    models.painted()
    np.testing.assert_allclose(np.array(models.weights(), dtype=float), own(2, 8), atol=1e-5)
    models.page.mouse.move(*models.cell(5, 4, heads))
    expect(heads.locator(".attnviz-sentence")).to_have_text("encoder 5, head 4")
    # A cell of the map: its query is pinned, its key chosen, and their products are drawn.
    models.page.mouse.click(*models.cell(10, 2))
    models.expect_in_link("pinned", None)  # “it” is what the link begins with
    models.expect_in_link("key", "2+%C2%B7+animal")
    expect(models.page.locator(".attnviz-score")).to_contain_text("Query it and key animal")
    expect(models.chart("products")).to_have_attribute("data-ready", "true")
    score = models.page.locator(".attnviz-score b").inner_text().replace("−", "-")
    assert sum(models.bars()) == pytest.approx(float(score), abs=0.006)
    # The same click again lets go of both.
    models.painted()
    models.page.mouse.click(*models.cell(10, 2))
    models.expect_in_link("key", None)
    models.expect_in_link("pinned", "none")


@pytest.mark.parametrize("size", [(1280, 800), (390, 844)], ids=["laptop", "phone"])
def test_30_layers_run_from_left_to_right_to_the_open_head(
    browser: Browser, address: str, deep: Path, size: tuple[int, int]
) -> None:
    with shared(browser, address, *size, kind=Models) as models:
        models.open(f"?model={deep}&text=the+fox&layer=layer+29&head=Head+3")
        mosaic, is_phone = models.chart("heads"), size[0] < 640
        stage = mosaic.locator(".attnviz-stage")
        plot, place = mosaic.locator(".nsewdrag").bounding_box(), stage.bounding_box()
        assert plot
        assert place
        width, height = plot["width"] / 30, plot["height"] / 4
        assert min(width, height) >= LEAST_WIDTH - 2  # with the gaps, less what the labels of the axes take
        assert (plot["width"] > place["width"]) == is_phone
        assert plot["height"] < place["height"]
        assert plot["x"] + plot["width"] <= place["x"] + place["width"] + 40  # scrolled to the last layer
        stage.evaluate("stage => { stage.scrollLeft = 0; }")
        models.page.mouse.click(*models.place(mosaic, 1, 2, 4, 30))
        models.expect_in_link("layer", "layer+2")
        models.expect_in_link("head", "Head+1")
        models.painted()
        stage.focus()
        for _ in range(30):  # from whatever head is under the pointer, since the picture may have scrolled
            stage.press("ArrowRight")
        expect(mosaic.locator(".attnviz-sentence")).to_have_text("layer 29, head 1")
        if is_phone:
            models.until("() => document.querySelector('.st-key-heads .attnviz-stage').scrollLeft > 200")


def test_heads_colored_by_a_measure_open_too(models: Models) -> None:
    models.open("?color-by=Previous+token&head=Mean+of+heads")
    heads = models.chart("heads")
    expect(heads).to_have_attribute("data-rows", "6")
    models.page.mouse.move(*models.cell(0, 2, heads))
    share = float(own(0, 2).diagonal(-1).mean())
    expect(heads.locator(".attnviz-sentence")).to_contain_text(f"encoder 0, head 2: {share:.2f}")
    models.page.mouse.click(*models.cell(0, 2, heads))
    models.expect_in_link("layer", "encoder+0")
    models.expect_in_link("head", "Head+2")
    models.painted()
    np.testing.assert_allclose(np.array(models.weights(), dtype=float), own(0, 2), atol=1e-5)


def test_a_bad_folder_is_said_and_nothing_is_lost(models: Models, tmp_path: Path) -> None:
    models.open()
    models.another(str(tmp_path))
    expect(models.alert).to_contain_text("is not a model: it has no config.json")
    models.expect_in_link("model", str(tmp_path).replace("/", "%2F"))
    expect(models.page.locator(".attnviz-chart")).to_have_count(0)  # of another model
    for name in ("nowhere", "elsewhere"):
        models.another(str(tmp_path / name))
        expect(models.alert).to_contain_text("There is no folder")
        models.expect_in_link("model", str(tmp_path / name).replace("/", "%2F"))
    expect(models.alert).to_have_count(1)
    models.chosen("Model").locator("input").click()
    long = models.page.get_by_role("option", name=str(tmp_path / "elsewhere"), exact=True)
    assert long.evaluate(LAST_LETTER_IS_VISIBLE)
    models.page.keyboard.press("Escape")
    models.choose("Model", "sentence-transformers/all-MiniLM-L6-v2")
    expect(models.alert).to_have_count(0)
    models.expect_in_link("model", None)
    models.naming().press("Escape")  # to open it asks for nothing
    models.choose("Head", "Head 2")
    models.expect_in_link("head", "Head+2")
    models.expect_in_link("model", None)


def test_a_long_text_leaves_the_link_and_a_short_one_comes_back(models: Models) -> None:
    models.open()
    models.type("to be\nor not")
    models.expect_in_link("text", "to+be%0Aor+not")
    models.type("to be or not to be\n" * 120)
    models.expect_in_link("text", None)
    expect(models.page.get_by_text("is not in the link, and is gone after a reload.").first).to_be_visible()
    models.settled()
    models.type("or not\nto be")
    models.expect_in_link("text", "or+not%0Ato+be")
