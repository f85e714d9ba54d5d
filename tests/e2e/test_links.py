"""A server with settings of its own, below a base path: a deep link opens its state, wherever it comes from; a long map
of a trace is searched; and a course page on another site has the app in a frame."""

import http.server
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx2
import numpy as np
import pytest
import torch
from playwright.sync_api import expect

from attnviz import Inputs, Layer, Mechanism, Trace
from attnviz.layer import Kind, LayerId
from attnviz.masks import SlidingWindow
from attnviz.normalizers import Softmax
from attnviz.sources import Model
from tests.support.browser import Browser, Masks, opened, serving

LINK = (
    "?text=A+link+opens+its+own+state.&layer=encoder+5&head=Head+11&mask=Sliding+window&mask.size=3"
    "&normalizer.temperature=0.5&pinned=3+%C2%B7+opens"
)
TOKENS = tuple(f"t{i}" for i in range(1100))


@dataclass
class Hosted:
    """The address of the server; the folder and the port of a site that may have it in a frame, whose names are
    localhost and course.localhost."""

    address: str
    folder: Path
    port: int


@pytest.fixture(scope="module")
def hosted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    folder, traces = tmp_path_factory.mktemp("course"), tmp_path_factory.mktemp("traces")
    inputs = Inputs(*torch.randn(3, 1, len(TOKENS), 8, generator=torch.Generator().manual_seed(0)), TOKENS, TOKENS)
    Trace((Layer(LayerId("decoder", 0), Kind.SELF, inputs, Mechanism()),)).save(traces / "long")
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with (
        http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as site,
        pytest.MonkeyPatch.context() as environment,
    ):
        threading.Thread(target=site.serve_forever, daemon=True).start()
        environment.setenv("ATTNVIZ_EMBED", f"http://localhost:{site.server_port}")
        environment.setenv("ATTNVIZ_TRACES", str(traces))
        with serving(tmp_path_factory.mktemp("server") / "log", None, "/attn") as address:
            yield Hosted(address, folder, site.server_port)
        site.shutdown()


def test_a_fresh_server_below_a_base_path_opens_a_deep_link_and_goes_on(browser: Browser, hosted: Hosted) -> None:
    """The first request that a process ever gets; then another page, and the browser's way back; clicks and links."""
    layer = Model("A link opens its own state.").layers()[5]
    mechanism = Mechanism(mask=SlidingWindow(3), normalizer=Softmax(0.5))
    expected = mechanism(layer.inputs, heads=[11]).weights[0].numpy()
    with opened(browser, hosted.address) as explore:
        explore.open(LINK).painted(rows=9)
        for is_back in (False, True):
            if is_back:
                explore.open().painted(rows=16)
                explore.page.go_back()
                explore.painted(rows=9)
            weights = np.nan_to_num(np.array(explore.weights(), dtype=float))
            np.testing.assert_allclose(weights, expected, atol=2e-6)
            expect(explore.page.locator(".attnviz-summary")).to_contain_text("opens gives")
            expect(explore.page).to_have_url(re.compile(re.escape("head=Head+11")))
        explore.page.mouse.click(*explore.place(explore.mosaic, 1, 2, 4, 3))
        explore.expect_in_link("head", "Head+5")
        explore.painted()
        explore.page.goto(f"{hosted.address}/lessons")
        explore.page.get_by_role("link", name="Windows and sinks").click()
        Masks(explore.page, hosted.address).painted()


def test_an_unknown_address_answers_404(address: str, hosted: Hosted) -> None:
    for unknown in ("/vendor/nothing.js", "/unknown", "/masks/nothing", "/static/js/nothing.js", "-wrong/masks"):
        assert httpx2.get(hosted.address + unknown).status_code == 404
    for unknown in ("/vendor/nothing.js", "/unknown", "/masks/nothing", "/static/js/nothing.js", "/attn-wrong/masks"):
        assert httpx2.get(address + unknown).status_code == 404
    for page in ("", "/", "/masks", "/explore?layer=x"):
        assert "<html" in httpx2.get(address + page).raise_for_status().text


def test_a_long_text_is_searched_and_its_curve_moves_the_map(browser: Browser, hosted: Hosted) -> None:
    with opened(browser, hosted.address) as explore:
        explore.open("?source=Trace&trace=long")
        page, curve = explore.page, explore.chart("query-curve")
        expect(curve).to_have_attribute("data-rows", "1000")
        explore.painted()

        page.get_by_role("textbox", name="Find in the text").fill("t70")
        page.keyboard.press("Enter")
        page.get_by_role("link", name="Go to the first").click()
        expect(page.get_by_text("Match 1 of 11")).to_be_visible()
        explore.painted()
        page.get_by_role("link", name="Next").click()
        expect(page.get_by_text("Match 2 of 11")).to_be_visible()
        explore.expect_in_link("pinned", "700+%C2%B7+t700")
        explore.expect_in_link("part-of-keys", "444")
        expect(page.locator(".attnviz-context mark").first).to_have_text("t700")

        explore.painted()
        curve.scroll_into_view_if_needed()
        x, y = explore.place(curve, 0, 0, 1, 1000)  # the first key, at the height of the middle
        page.mouse.move(x, y)
        expect(curve.locator(".attnviz-sentence")).to_contain_text("of its attention to t")
        page.mouse.click(x, y)
        explore.expect_in_link("part-of-keys", "0")
        explore.painted()


def test_only_a_listed_site_has_the_app_in_a_frame(browser: Browser, hosted: Hosted) -> None:
    (hosted.folder / "course.html").write_text(
        f'<h1>Course</h1><iframe width="1200" height="700" src="{hosted.address}/masks?embed=true"></iframe>'
    )
    page = browser.new_page()
    page.goto(f"http://localhost:{hosted.port}/course.html")
    frame = page.frame_locator("iframe")
    expect(frame.locator(".st-key-map-a .attnviz-chart[data-ready=true]")).to_be_visible()
    frame.get_by_label("Mask B in words", exact=True).fill("causal & q - k < 3")
    frame.get_by_label("Mask B in words", exact=True).press("Enter")
    expect(frame.locator(".st-key-map-b .attnviz-chart[data-ready=true]")).to_be_visible()
    for chrome in (".st-key-heading", "[data-testid=stTopNav]", "[data-testid=stSidebarLogo]", ".st-key-embedded"):
        expect(frame.locator(chrome).filter(visible=True)).to_have_count(0)
    expect(frame.locator(".st-key-embedded")).to_have_count(1)
    refused: list[str] = []
    page.on("console", lambda message: refused.append(message.text))
    page.goto(f"http://course.localhost:{hosted.port}/course.html")
    page.wait_for_function("document.readyState === 'complete'")
    assert any("frame-ancestors" in text for text in refused), refused
    expect(page.frame_locator("iframe").locator(".attnviz-chart")).to_have_count(0)
    page.close()
