"""The Explore page in a real browser."""

import numpy as np
import pytest
from playwright.sync_api import expect

from attnviz.figures import cell_sentence
from attnviz.mechanism import Mechanism
from attnviz.sources import Model, Toy
from tests.support.browser import Browser, Explore, opened, place_of, shared

CHANGED = """before => JSON.stringify(document.querySelector(".st-key-heatmap .attnviz-graph").data[0].z
    .map(row => Array.from(row, w => Number.isNaN(w) ? null : w))) !== JSON.stringify(before)"""
HOSTILE = "<s> </s> <b>bold</b> <script>alert(1)</script> $x$ a|b `code` &amp; שלום 👩‍🔬"


def own_weights(layer: int, head: int, mechanism: Mechanism | None = None, text: str | None = None) -> np.ndarray:
    layers = Model(text).layers() if text else Model().layers()
    chosen = layers[layer]
    return (mechanism or chosen.mechanism)(chosen.inputs, heads=[head]).weights[0].numpy()


def test_a_hover_over_the_example_fans_out_a_query_without_the_server(browser: Browser, address: str) -> None:
    with opened(browser, address) as explore:
        sent: list[object] = []
        explore.page.on("websocket", lambda socket: socket.on("framesent", lambda frame: sent.append(frame)))
        explore.open().painted(rows=16)
        expect(explore.sentence).to_have_text("it gives 0.68 of its attention to animal.")
        expect(explore.page.locator(".attnviz-summary")).to_have_text(
            "it gives 0.68 of its attention to animal. Why there? Is it so in general?"
        )
        explore.expect_weights(own_weights(3, 1))
        expect(explore.mosaic).to_have_attribute("data-rows", "4")
        expect(explore.mosaic).to_have_attribute("data-columns", "3")
        box = place_of(explore.stage)
        assert box["y"] + box["height"] <= 800  # of a small laptop, without scrolling
        assert box["x"] + box["width"] <= 1280
        weights, tokens = own_weights(3, 1), Model().layers()[0].inputs.query_tokens
        before = len(sent)
        for row, column in ((6, 8), (2, 0), (15, 15)):
            explore.page.mouse.move(*explore.cell(row, column))
            sentence = cell_sentence(tokens[row], tokens[column], float(weights[row, column]))
            expect(explore.sentence).to_have_text(sentence)
            bars = explore.heatmap.locator(".attnviz-overlay rect[rx]")
            assert bars.count() == 16
            widths = bars.evaluate_all("bars => bars.map(bar => Number(bar.getAttribute('width')))")
            assert int(np.argmax(widths)) == int(weights[row].argmax())
            lines = explore.heatmap.locator(".attnviz-overlay path")
            assert lines.count() == int((weights[row] > 0.004).sum())
        assert len(sent) == before


def test_typed_text_is_drawn_and_bad_text_is_reported(explore: Explore) -> None:
    explore.open("?pinned=none")
    explore.page.mouse.move(*explore.cell(14, 15))
    expect(explore.sentence).to_contain_text("gives")
    explore.type("A new sentence.")  # a smaller picture than the one under the pointer
    explore.expect_weights(own_weights(3, 1, text="A new sentence."))
    explore.expect_in_link("text", "A+new+sentence.")
    before = explore.weights()
    explore.type("   ")
    expect(explore.alert).to_contain_text("There is no text yet")
    explore.painted(rows=6)
    assert explore.weights() == before
    expect(explore.page.get_by_test_id("stException")).to_have_count(0)
    explore.type("word " * 98)
    explore.painted(rows=100)
    expect(explore.alert).to_have_count(0)
    last = explore.cell(99, 50)
    explore.type("Only five now.")
    explore.page.mouse.click(*last)  # on a picture that is being replaced
    explore.painted(rows=6)
    expect(explore.page.get_by_test_id("stException")).to_have_count(0)
    expect(explore.alert).to_have_count(0)


def test_a_head_of_a_mosaic_is_opened_by_the_keyboard_and_by_a_click(explore: Explore) -> None:
    explore.open()
    stage = explore.mosaic.locator(".attnviz-stage")
    stage.focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        explore.page.keyboard.press(key)
    expect(explore.mosaic.locator(".attnviz-live")).to_have_text("Head 4")
    explore.page.keyboard.press("Enter")
    explore.expect_in_link("head", "Head+4")
    explore.painted()
    explore.page.mouse.click(*explore.place(explore.mosaic, 1, 2, 4, 3))
    explore.expect_in_link("head", "Head+5")
    expect(explore.sentence).not_to_have_text("it gives 0.68 of its attention to animal.")
    explore.expect_weights(own_weights(3, 5))
    explore.open("?mosaic=All+layers")
    expect(explore.mosaic).to_have_attribute("data-columns", "12")
    explore.painted()
    explore.page.mouse.click(*explore.place(explore.mosaic, 0, 2, 6, 12))
    explore.expect_in_link("layer", "encoder+0")
    explore.expect_in_link("head", "Head+2")
    explore.expect_weights(own_weights(0, 2))


def test_a_hover_over_the_longest_text_is_drawn_within_two_frames(explore: Explore) -> None:
    explore.open("?text=" + "Some+longer+words+" * 170 + "&mosaic=All+layers")
    explore.painted(rows=512)  # the most that MiniLM reads
    x, y = explore.cell(100, 50)
    frames = explore.stage.evaluate(
        """(stage, [x, y]) => new Promise(done => {
            const sentence = stage.parentElement.querySelector(".attnviz-sentence");
            const before = sentence.textContent;
            stage.dispatchEvent(new PointerEvent("pointermove", { clientX: x, clientY: y, bubbles: true }));
            let frames = 0;
            const look = () => {
                if (sentence.textContent !== before) return done(frames);
                frames += 1;
                requestAnimationFrame(look);
            };
            requestAnimationFrame(look);
        })""",
        [x, y],
    )
    assert frames <= 2
    boxes = explore.heatmap.locator(".ytick text").evaluate_all(
        "ticks => ticks.map(tick => tick.getBoundingClientRect()).map(box => [box.top, box.bottom])"
    )
    assert len(boxes) > 10
    middles = sorted((top + bottom) / 2 for top, bottom in boxes)
    assert min(np.diff(middles)) >= 14


def test_zoom_survives_a_change_of_any_control_and_holds_the_keys(explore: Explore) -> None:
    explore.open("?pinned=none")
    explore.drag((3, 3), (9, 10))
    reset = explore.heatmap.get_by_role("button", name="Reset zoom")
    expect(reset).to_be_visible()
    zoomed = explore.zoom()
    assert zoomed != pytest.approx([-0.5, 15.5, 15.5, -0.5])
    explore.stage.focus()
    for _ in range(12):  # which stay in view
        explore.page.keyboard.press("ArrowDown")
    expect(explore.live).to_contain_text(f"{Model().layers()[0].inputs.query_tokens[int(max(zoomed[2:]))]} gives")
    for label, option in (("Mask", "Causal"), ("Head", "Head 4"), ("Special tokens", "Hidden"), ("Score", "Cosine")):
        before = explore.weights()
        explore.choose(label, option)
        explore.until(CHANGED, arg=before)
        explore.painted()
        assert explore.zoom() == pytest.approx(zoomed), label
    explore.expect_in_link("mask", "Causal")
    explore.choose("Mask", "Full")
    explore.expect_in_link("mask", None)  # what a page begins with is not in its link
    explore.painted()
    explore.page.mouse.move(5, 5)
    reset.click()
    expect(reset).to_be_hidden()


def test_pixels_follow_the_weights_and_the_pointer_and_keys_read_and_pin(explore: Explore) -> None:
    explore.open("?pinned=none")
    weights, tokens = own_weights(3, 1), Model().layers()[0].inputs.query_tokens
    explore.stage.focus()
    row, column = 0, 0
    for key in ("ArrowRight", "ArrowRight", "ArrowRight", "ArrowDown", "ArrowDown", "ArrowLeft"):
        explore.page.keyboard.press(key)
    row, column = 2, 1
    text = cell_sentence(tokens[row], tokens[column], float(weights[row, column]))
    expect(explore.live).to_have_text(text)
    expect(explore.sentence).to_have_text(text)
    assert explore.live.get_attribute("aria-live") == "polite"
    described = explore.page.locator(f"#{explore.stage.get_attribute('aria-describedby')}")
    expect(described).to_contain_text("encoder 3, head 1: 16 queries by 16 keys.")
    explore.page.keyboard.press("End")
    expect(explore.live).to_have_text(cell_sentence(tokens[2], tokens[15], float(weights[2, 15])))
    explore.page.keyboard.press("Enter")
    explore.expect_in_link("pinned", "2+%C2%B7+animal")
    expect(explore.page.locator(".attnviz-summary")).to_contain_text("animal gives")
    expect(described).to_contain_text("animal gives")  # then the chart, too, knows what is pinned
    explore.painted()
    explore.page.keyboard.press("Escape")
    explore.expect_in_link("pinned", "none")
    explore.painted()
    # Of the mouse the first button pins and unpins; of the keys those with Alt are the browser's.
    explore.page.mouse.click(*explore.cell(5, 5), button="right")
    explore.page.mouse.click(*explore.cell(5, 5), button="middle")
    explore.stage.focus()
    script = """stage => ['ArrowLeft', 'ArrowRight'].map(key => stage.dispatchEvent(
        new KeyboardEvent('keydown', { key, altKey: true, bubbles: true, cancelable: true })))"""
    assert explore.stage.evaluate(script) == [True, True]
    explore.page.mouse.click(*explore.cell(6, 3))
    explore.expect_in_link("pinned", "6+%C2%B7+cross")
    expect(explore.page.locator(".attnviz-summary")).to_contain_text("cross gives 0.60 of its attention to street.")
    explore.painted()
    explore.page.mouse.move(5, 5)
    expect(explore.sentence).to_have_text(cell_sentence("cross", "didn", float(weights[6, 3])))
    marked = explore.heatmap.locator(".attnviz-overlay > rect").first
    top = float(marked.get_attribute("y") or 0) + place_of(explore.stage)["y"]
    assert top == pytest.approx(explore.cell(5.5, 0)[1], abs=1.5)
    explore.page.mouse.click(*explore.cell(6, 9))
    explore.expect_in_link("pinned", "none")
    expect(explore.page.locator(".attnviz-summary")).to_have_count(0)
    explore.painted()
    # The strongest cell of the row is the darkest on white paper.
    explore.page.mouse.move(5, 5)
    image = explore.heatmap.locator(".heatmaplayer image")
    expect(image).to_have_count(1)
    darkness = image.evaluate(
        """async image => {
            const picture = new Image();
            picture.src = image.getAttribute("href") ?? image.getAttribute("xlink:href");
            await picture.decode();
            const canvas = new OffscreenCanvas(picture.width, picture.height).getContext("2d");
            canvas.drawImage(picture, 0, 0);
            const at = (row, column) => canvas.getImageData(
                (column + 0.5) * picture.width / 16, (row + 0.5) * picture.height / 16, 1, 1).data;
            return Array.from({ length: 16 }, (_, j) => -at(10, j)[0] - at(10, j)[1] - at(10, j)[2]);
        }"""
    )
    assert int(np.argmax(darkness)) == int(own_weights(3, 1)[10].argmax())
    explore.page.mouse.move(*explore.cell(4, 4))
    expect(explore.sentence).to_contain_text("gives")
    explore.page.mouse.move(5, 5)
    expect(explore.sentence).to_have_text("Point at a cell to read it, click to pin its query.")


def test_hostile_text_is_shown_as_text(explore: Explore) -> None:
    explore.open("?source=Toy")
    explore.type(HOSTILE)
    explore.painted(rows=len(HOSTILE.split()))
    labels = explore.heatmap.locator(".ytick text").evaluate_all("ticks => ticks.map(tick => tick.textContent)")
    for token in ("<s>", "</s>", "<b>bold</b>", "$x$", "a|b", "`code`", "&amp;", "שלום", "👩‍🔬"):
        assert token in labels
    row = HOSTILE.split().index("<script>alert(1)</script>")
    explore.page.mouse.click(*explore.cell(row, 0))
    expect(explore.page.locator(".attnviz-summary")).to_contain_text("<script>alert(1)</script> gives")
    expect(explore.page.locator(".attnviz-chart b, .attnviz-chart s, .attnviz-chart script")).to_have_count(0)
    weights = Toy(text=HOSTILE).layers()[0]
    explore.expect_weights(weights.mechanism(weights.inputs).weights[0])


def test_a_new_size_and_a_new_theme_are_followed(explore: Explore) -> None:
    explore.open()
    height = "height => document.querySelector('.st-key-heads .attnviz-stage').clientHeight > height"
    explore.page.set_viewport_size({"width": 1920, "height": 1080})
    explore.until(height, arg=600)  # charts side by side grow with the window
    explore.page.set_viewport_size({"width": 420, "height": 1080})
    explore.until(f"() => !({height})(600)")
    explore.until("() => document.querySelector('.st-key-heatmap .attnviz-stage').clientWidth < 420")
    explore.until("() => document.querySelector('.st-key-heatmap .attnviz-graph')._fullLayout.width <= 420")
    explore.page.set_viewport_size({"width": 1280, "height": 800})
    explore.until("() => document.querySelector('.st-key-heatmap .attnviz-graph')._fullLayout.width > 560")
    explore.page.emulate_media(color_scheme="dark")
    expect(explore.heatmap).to_have_attribute("data-theme", "dark")
    explore.painted()


@pytest.mark.parametrize(
    ("theme", "touch", "link"),
    [
        ("light", True, "?pinned=none"),
        ("dark", False, "?text=" + "Pneumonoultramicroscopicsilicovolcanoconiosis+" * 5 + "&source=Toy"),
    ],
    ids=["touch", "long words"],
)
def test_explore_fits_a_phone_and_a_finger_scrolls_it(
    browser: Browser, address: str, theme: str, touch: bool, link: str
) -> None:
    with shared(browser, address, 390, 844, theme, touch) as explore:
        explore.open(link)
        expect(explore.heatmap).to_have_attribute("data-theme", theme)
        assert explore.page.evaluate("document.scrollingElement.scrollWidth") <= 390
        labels = explore.heatmap.locator(".xtick text")
        visible = labels.evaluate_all("ticks => ticks.filter(tick => tick.style.display !== 'none').length")
        assert visible == int(explore.heatmap.get_attribute("data-columns") or 0)
        for chart in (explore.mosaic, explore.heatmap):
            box = place_of(chart)
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= 390
        if touch:
            explore.stage.scroll_into_view_if_needed()
            assert explore.stage.evaluate("stage => getComputedStyle(stage).touchAction") == "pan-x pan-y"
            before = explore.zoom()
            explore.drag((4, 4), (9, 4))
            assert explore.zoom() == before
            explore.page.touchscreen.tap(*explore.cell(6, 3))
            explore.expect_in_link("pinned", "6+%C2%B7+cross")
