"""The menu of models on Explore, in a browser."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect
from transformers import LlamaConfig, LlamaForCausalLM

from attnviz.figures.layer_mosaic import LEAST_WIDTH
from tests.support.browser import Browser, Explore, shared
from tests.support.tiny_models import GROUPED, byte_fallback

LAST_LETTER_IS_VISIBLE = """option => {
    const text = document.createTreeWalker(option, NodeFilter.SHOW_TEXT).nextNode(), last = document.createRange()
    last.setStart(text, text.length - 1)
    last.setEnd(text, text.length)
    const here = last.getBoundingClientRect(), box = option.getBoundingClientRect()
    return here.left > box.left && here.right < box.right
}"""


def naming(explore: Explore) -> Locator:
    """Opens the place where a model is named that is not in the menu; gives its box, in which nothing is left."""
    explore.settled()
    more = explore.page.locator(".st-key-more details")
    if more.get_attribute("open") is None:
        more.locator("summary").click()
    explore.page.get_by_role("button", name="Another model").click()
    box = explore.page.get_by_label("Its id on the hub, or the path of a folder")
    expect(box).to_have_count(1)  # the one before goes when its run ends
    expect(box).to_have_value("")
    return box


def test_a_bad_folder_is_said_and_nothing_is_lost(explore: Explore, tmp_path: Path) -> None:
    explore.open()
    for name, said in ((".", "is not a model: it has no config.json"), ("elsewhere", "There is no folder")):
        path = str(tmp_path / name)
        box = naming(explore)
        box.fill(path)
        box.press("Enter")
        expect(box).to_have_count(0)
        expect(explore.alert).to_contain_text(said)
        explore.expect_in_link("model", path.replace("/", "%2F"))
        expect(explore.page.locator(".attnviz-chart")).to_have_count(0)  # of another model
    expect(explore.alert).to_have_count(1)
    explore.chosen("Model").locator("input").click()
    assert explore.page.get_by_role("option", name=path, exact=True).evaluate(LAST_LETTER_IS_VISIBLE)
    explore.page.keyboard.press("Escape")
    explore.choose("Model", "sentence-transformers/all-MiniLM-L6-v2")
    expect(explore.alert).to_have_count(0)
    explore.expect_in_link("model", None)
    naming(explore).press("Escape")  # to open it asks for nothing
    explore.choose("Head", "Head 2")
    explore.expect_in_link("head", "Head+2")
    explore.expect_in_link("model", None)


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a model with 30 layers of 4 heads."""
    folder = tmp_path_factory.mktemp("models") / "deep"
    config = LlamaConfig(vocab_size=400, max_position_embeddings=128, **GROUPED | {"num_hidden_layers": 30})
    LlamaForCausalLM(config).save_pretrained(folder)
    byte_fallback().save_pretrained(folder)
    return folder


@pytest.mark.parametrize("size", [(1280, 800), (390, 844)], ids=["laptop", "phone"])
def test_30_layers_run_from_left_to_right_to_the_open_head(
    browser: Browser, address: str, deep: Path, size: tuple[int, int]
) -> None:
    with shared(browser, address, *size) as explore:
        explore.open(f"?model={deep}&text=the+fox&layer=layer+29&head=Head+3&mosaic=All+layers")
        mosaic, is_phone = explore.mosaic, size[0] < 640
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
        explore.page.mouse.click(*explore.place(mosaic, 1, 2, 4, 30))
        explore.expect_in_link("layer", "layer+2")
        explore.expect_in_link("head", "Head+1")
        explore.painted()
        stage.focus()
        sentence, last = mosaic.locator(".attnviz-sentence"), re.compile(r"layer 29, head \d")
        for _ in range(90):  # from the head under the pointer, and again where the picture was drawn anew meanwhile
            if last.fullmatch(sentence.inner_text()):
                break
            stage.press("ArrowRight")
        expect(sentence).to_have_text(last)
        if is_phone:
            explore.until("() => document.querySelector('.st-key-heads .attnviz-stage').scrollLeft > 200")
