"""The Write page in a real browser, with a real model: it writes, is stopped and goes on, and branches."""

import re
from pathlib import Path
from urllib.parse import quote_plus

import pytest
from playwright.sync_api import Locator, WebSocketRoute, expect
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ClientState_pb2 import ClientState

from attnviz.models import TRANSLATOR
from attnviz.sources.model import TRANSLATED
from attnviz.sources.written import PROMPT, Written
from attnviz.translator import load
from tests.support.browser import AppPage, Browser, opened, place_of, shared
from tests.support.image_text_models import save_model


class Write(AppPage):
    """The Write page."""

    path, charts = "write", ("heatmap",)

    @property
    def root(self) -> Locator:
        return self.page.locator(".attnviz-write")

    @property
    def text(self) -> Locator:
        return self.root.locator(".write-text")

    @property
    def looks(self) -> Locator:
        return self.root.locator(".write-sentence")

    @property
    def alternatives(self) -> Locator:
        return self.root.locator(".write-alternative")

    @property
    def branches(self) -> Locator:
        return self.page.locator(".attnviz-branches a")

    @property
    def word(self) -> Locator:
        """The field of a word that takes the place of a written one, which is folded at first."""
        if not self.root.locator(".write-more").evaluate("element => element.open"):
            self.root.get_by_text("Other tokens").click()
        return self.page.get_by_label("Another word in its place")

    def token(self, number: int) -> Locator:
        return self.root.locator(".write-token").nth(number)

    def button(self, name: str) -> Locator:
        return self.root.get_by_role("button", name=name)

    def written(self, tokens: int | None = None, choices: str | None = None) -> None:
        """Waits until no more is written of the text with these choices."""
        if choices is not None:
            expect(self.root).to_have_attribute("data-choices", choices)
        expect(self.root).to_have_attribute("data-ready", "true")
        if tokens is not None:
            expect(self.root).to_have_attribute("data-tokens", str(tokens))
        self.settled()

    def weights_row(self, row: int) -> list[float]:
        return [weight or 0.0 for weight in self.weights()[row]]


@pytest.fixture(scope="module")
def expected():
    """What the model writes, computed in this process."""
    return Written().write()


@pytest.fixture
def write(browser: Browser, address: str):
    with shared(browser, address, kind=Write) as app:
        app.go("write")
        app.written()
        yield app


def test_it_writes_with_its_attention_and_words_show_their_rows(write: Write, expected) -> None:
    assert "".join(expected.tokens) == f"{PROMPT} Rome. The capital of Spain is Madrid."
    expect(write.text).to_have_text("".join(expected.tokens))
    row = expected.prompt_length - 1
    maps = expected.trace[17].maps([5], slice(None))[0].nan_to_num()
    strongest = int(maps[row].argmax())
    assert expected.tokens[strongest] == " Paris"
    expect(write.looks).to_contain_text(f"Before “Rome” this head looked most at “Paris” {maps[row, strongest]:.2f}")
    shown = [one for one in expected.steps[0].alternatives if one.probability > 0.02]
    for i, one in enumerate(shown):
        expect(write.alternatives.nth(i)).to_contain_text(one.token.strip())
        expect(write.alternatives.nth(i)).to_contain_text(f"{round(100 * one.probability)} %")
    expect(write.alternatives.nth(0)).to_have_attribute("aria-current", "true")
    assert write.weights_row(row) == pytest.approx(maps[row].tolist(), abs=1e-5)

    page, spain, italy = write.page, expected.tokens.index(" Spain"), expected.tokens.index(" Italy")
    text, figure = place_of(write.root), place_of(write.heatmap)
    assert text["x"] + text["width"] <= figure["x"]
    assert abs(text["y"] - figure["y"]) < 60
    write.token(2).hover()
    expect(write.looks).to_contain_text("looked most at “of” before")
    assert place_of(write.heatmap) == figure  # nothing moves while the pointer goes over the text
    expect(write.alternatives.first).to_be_hidden()
    write.token(spain).hover()
    expect(write.looks).to_contain_text(f"Before “Spain” this head looked most at “Italy” {maps[spain - 1, italy]:.2f}")
    write.token(italy).hover()
    expect(write.looks).to_contain_text(f"looked most at “Italy” before “Spain” {maps[spain - 1, italy]:.2f}")
    page.mouse.move(0, 0)
    write.text.focus()
    page.keyboard.press("ArrowRight")
    expect(write.looks).to_contain_text("Before “.” this head")
    expect(write.root.get_by_role("status")).to_contain_text("Before “.” this head")
    write.token(spain).click()
    write.expect_in_link("pinned", quote_plus(f"{spain - 1} · ␣of → Spain"))
    page.mouse.move(0, 0)
    expect(write.looks).to_contain_text("Before “Spain”")
    write.settled()
    write.choose("Head", "Head 3")
    expect(write.token(spain)).to_have_class(re.compile("write-chosen"))  # it stays chosen
    write.settled()
    write.choose("Head", "Mean of heads")
    expect(write.looks).to_contain_text("Before “Spain” these heads looked most at")
    write.settled()

    page.set_viewport_size({"width": 390, "height": 844})
    write.settled()
    text, figure = place_of(write.root), place_of(write.heatmap)
    assert text["y"] + text["height"] <= figure["y"]
    page.set_viewport_size({"width": 1280, "height": 800})
    write.go(f"write?length=3&prompt={quote_plus('to be or not ' * 80)}")
    write.written()
    view, last = place_of(write.text), place_of(write.token(write.root.locator(".write-token").count() - 1))
    assert view["height"] < 400
    assert view["y"] <= last["y"] <= view["y"] + view["height"] - last["height"]  # a long text scrolls to its end


def test_other_tokens_and_typed_words_branch_and_back_returns(write: Write, expected) -> None:
    other = expected.steps[0].alternatives[1]
    write.alternatives.nth(1).click()
    write.written(choices=f"0.{other.token_id}")
    write.expect_in_link("choices", f"0.{other.token_id}")
    expect(write.text).to_contain_text(f"{PROMPT}{other.token}")
    expect(write.token(expected.prompt_length)).to_have_class(re.compile("write-chosen"))
    expect(write.alternatives.nth(1)).to_have_attribute("aria-current", "true")
    expect(write.branches).to_have_count(2)
    write.branches.nth(0).click()
    expect(write.text).to_have_text("".join(expected.tokens))
    write.expect_in_link("choices", None)
    write.settled()
    write.page.go_back()
    write.written(choices=f"0.{other.token_id}")
    expect(write.text).to_contain_text(f"{PROMPT}{other.token}")

    write.go("write")
    write.written(len(expected.tokens))
    write.token(expected.prompt_length + 5).click()  # Spain
    write.word.fill("Germany")
    write.root.get_by_role("button", name="Write").click()
    write.written()
    expect(write.text).to_contain_text("The capital of Germany is Berlin.")
    expect(write.branches.nth(1)).to_have_text("“Germany” as token 6")

    write.go("write")
    write.written(len(expected.tokens))
    write.token(len(expected.tokens) - 1).click()  # words after the last are written whole, and it goes on
    write.word.fill("and 東京 is in")
    write.page.keyboard.press("Enter")
    write.expect_in_link("length", "40")
    write.written()
    expect(write.text).to_contain_text("Spain is Madrid and")
    expect(write.branches.nth(1)).to_have_text("“and 東京 is in” as token 9")
    write.go("write")
    write.written(len(expected.tokens))
    write.token(len(expected.tokens) - 1).click()
    write.alternatives.nth(1).click()
    write.expect_in_link("length", "33")
    write.written()


def test_it_is_stopped_and_goes_on_and_the_map_grows_meanwhile(browser: Browser, address: str) -> None:
    with opened(browser, address, kind=Write) as app:
        app.page.goto(f"{address}/write?prompt=Once+upon+a+time&length=400")
        expect(app.root).to_have_attribute("data-ready", "false")
        app.until("() => Number(document.querySelector('.attnviz-write')?.dataset.tokens) > 12")
        app.until(
            "() => document.querySelector('.st-key-heatmap .attnviz-graph')?.data?.[0].z"
            ".filter(row => row.some(weight => weight > 0)).length > 10"
        )
        app.until(  # no row is left out but maybe the latest ones
            "() => { const rows = document.querySelector('.st-key-heatmap .attnviz-graph').data[0].z"
            ".map(row => row.some(weight => weight > 0));"
            " return rows.lastIndexOf(true) > 20 && rows.slice(0, 16).every(Boolean); }"
        )
        stop = app.root.locator(".write-stop").element_handle()  # a press lasts longer than a token
        tokens = app.root.get_attribute("data-tokens")
        expect(app.root).not_to_have_attribute("data-tokens", tokens or "")
        assert stop.evaluate("stop => stop.isConnected")
        app.button("Stop").click()
        app.written()
        count = int(app.root.get_attribute("data-tokens") or 0)
        assert 12 < count < 400
        length = app.page.evaluate("Number(new URL(location.href).searchParams.get('length'))")
        assert app.weights()[0][0] == 1
        assert len(app.weights()) == count - 1
        app.button("Go on").click()
        app.expect_in_link("length", str(length + 24))
        app.written(count + 24)


def test_requests_of_a_slow_browser_bring_nothing_back(browser: Browser, address: str, expected) -> None:
    """While a text is written, its fragment asks for runs, here with the values and the link of before."""
    earlier, is_late = ClientState(), False

    def late(message: str | bytes) -> bytes:
        request = BackMsg.FromString(message)
        rerun = request.rerun_script
        if not is_late:
            earlier.CopyFrom(rerun)
        elif rerun.is_auto_rerun:
            rerun.widget_states.CopyFrom(earlier.widget_states)
            rerun.query_string = earlier.query_string
        return request.SerializeToString()

    def connect(socket: WebSocketRoute) -> None:
        server = socket.connect_to_server()
        socket.on_message(lambda message: server.send(late(message)))

    with opened(browser, address, kind=Write) as app:
        app.page.route_web_socket("**/_stcore/stream", connect)
        app.page.goto(f"{address}/write")
        app.written()
        app.token(expected.tokens.index(" Spain")).click()
        app.settled()
        assert any("choices" in widget.id for widget in earlier.widget_states.widgets)
        is_late = True
        app.word.fill("Germany")
        app.button("Write").click()
        expect(app.text).to_contain_text("The capital of Germany is Berlin.")
        app.written()
        app.go("write?prompt=Once+upon+a+time&length=400")
        app.until("() => Number(document.querySelector('.attnviz-write')?.dataset.tokens) > 25")
        app.button("Stop").click()
        app.written()
        stopped = app.root.get_attribute("data-tokens")
        app.button("Go on").click()
        app.written(int(stopped or 0) + 24)


def test_a_reply_goes_on_with_the_chat_and_is_in_the_link(write: Write) -> None:
    first, second = "What is the capital of France?", "And of Italy?"
    write.go(f"write?chat=true&system=Be+brief.&prompt={quote_plus(first)}")
    expect(write.text).to_contain_text("The capital of France is Paris.")
    write.written()
    reply, again = write.page.get_by_label("Reply to the model"), write.button("Start over")
    expect(again).to_be_hidden()
    reply.fill(second)
    reply.press("Enter")
    expect(write.text).to_contain_text("The capital of Italy is Rome.")
    write.written()
    expect(reply).to_be_focused()
    answer = "The capital of France is Paris."
    write.expect_in_link("earlier", quote_plus(f'["{first}","{answer}"]'))
    write.expect_in_link("prompt", quote_plus(second))
    source = Written(second, is_chat=True, system="Be brief.", tokens=48, earlier=(first, answer))
    text = source.write()
    expect(write.root.locator(".write-ending")).to_have_text("The model ended its text here.")
    turns = ["Be brief.", first, answer, second, text.answer]
    roles = write.text.locator(".write-role")
    expect(roles).to_have_text(["system", "user", "assistant", "user", "assistant"])
    assert [line for line in write.text.inner_text().split("\n") if line][1::2] == turns
    expect(write.root.locator(".write-written")).to_have_count(len(text.steps))  # without the earlier answer
    expect(write.root.locator(".write-note")).to_contain_text("of its attention is on tokens of the chat template")
    labels = write.page.evaluate("document.querySelector('.st-key-heatmap .attnviz-graph').layout.yaxis.ticktext")
    named = [label.split(": ")[0] for label in labels if ": " in label]
    assert named == ["<b>system", "<b>user", "<b>assistant", "<b>user", "<b>assistant"]
    write.page.reload()
    write.written()
    expect(roles).to_have_count(5)
    write.go(f"{write.page.url.rsplit('/', 1)[1]}&template-tokens=true")
    write.written()
    expect(write.text).to_have_text("".join(text.tokens), use_inner_text=False)
    expect(write.root.locator(".write-note")).to_be_hidden()
    again.click()
    write.expect_in_link("earlier", None)
    write.expect_in_link("prompt", quote_plus(first))
    write.written()
    expect(write.text).not_to_contain_text(second)
    expect(again).to_be_hidden()


def test_a_long_chat_stays_in_the_session(write: Write) -> None:
    long = "=" * 2_100  # in 35 tokens
    write.go(f"write?chat=true&length=2&prompt={quote_plus('Say yes.')}")
    write.written()
    reply = write.page.get_by_label("Reply to the model")
    for message in (long, "And now no."):
        reply.fill(message)
        reply.press("Enter")
        expect(write.text).to_contain_text(message)
        write.written()
    write.expect_in_link("earlier", None)
    expect(write.text).to_contain_text(long)
    write.alternatives.nth(1).click()
    write.page.wait_for_url(re.compile("[?&]choices=[0-9]+[.]"), wait_until="commit")
    write.written()
    expect(write.text).to_contain_text(long)


def test_the_translator_translates_and_knows_its_own_words_alone(browser: Browser, address: str) -> None:
    with shared(browser, address, kind=Write) as write:
        write.go("write")
        write.written()
        write.choose("Writer", TRANSLATOR)  # the parameter of the menu
        expect(write.text).to_contain_text("The small red car is beautiful.<start> la petite voiture rouge est belle.")
        write.written()
        translation = load().translate(TRANSLATED)
        row = translation.french.index("voiture")  # which is written there
        weights = translation.layers(use="cross")[0].maps(1)[0]
        write.token(len(translation.english) + 1 + row).hover()
        expect(write.looks).to_contain_text(f"Before “voiture” this head looked most at “car” {weights[row].max():.2f}")
        assert write.weights_row(row) == pytest.approx(weights[row].tolist(), abs=1e-5)
        write.token(len(translation.english) + 1).click()  # la
        write.expect_in_link("pinned", quote_plus("0 · <start> → la"))
        write.settled()
        field, button = write.word, write.button("Write")
        field.fill("zèbre")
        button.click()
        expect(write.page.get_by_test_id("stToast")).to_contain_text("but not “zèbre”")
        field.fill("une")
        button.click()
        expect(write.text).to_contain_text("<start> une petite voiture rouge est belle.")
        write.written()


@pytest.mark.parametrize("size", [(1280, 800), (390, 844)], ids=["laptop", "phone"])
def test_the_picture_beside_the_map_shows_the_word_that_is_read(
    browser: Browser, address: str, tmp_path: Path, size: tuple[int, int]
) -> None:
    folder = save_model("smolvlm", tmp_path)
    with opened(browser, address, *size, kind=Write) as write:
        write.open(f"?writer={folder}&prompt=The+quick+brown+fox&length=4")
        expect(write.root).to_have_attribute("data-ready", "true")
        picture = write.chart("picture")
        expect(picture.locator("svg.attnviz-overlay > rect").first).to_be_attached()
        shown = "".join(write.text.locator(".write-token:visible").all_inner_texts())
        assert shown.strip().startswith("The quick brown fox")
        weights = write.weights()
        layers = Written("The quick brown fox", str(folder), tokens=4).layers()
        grids = next(layer.inputs.key_grids for layer in layers if layer.id.stack == "text")
        patches = [position for grid in grids for position in grid.positions]
        first = len(weights) - 4
        for number in (3, 1):  # the last is shown at first
            if number < 3:
                write.text.locator(".write-written").nth(number).hover()
            share = sum(weights[first + number][position] for position in patches)
            expect(picture.locator(".attnviz-sentence")).to_contain_text(f"gives {share:.2g}")
            assert picture.locator("svg.attnviz-overlay > rect").count() >= len(patches)
