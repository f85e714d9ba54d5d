"""A link opens its state, wherever it comes from."""

import re
from pathlib import Path

import httpx2
import numpy as np
from playwright.sync_api import expect

from attnviz.masks import SlidingWindow
from attnviz.mechanism import Mechanism
from attnviz.normalizers import Softmax
from attnviz.sources import Model
from tests.support.browser import Browser, Masks, opened, serving

LINK = (
    "?text=A+link+opens+its+own+state.&layer=encoder+5&head=Head+11&mask=Sliding+window&mask.size=3"
    "&normalizer.temperature=0.5&pinned=3+%C2%B7+opens"
)


def test_a_fresh_server_below_a_base_path_opens_a_deep_link_and_goes_on(browser: Browser, tmp_path: Path) -> None:
    """The first request that a process ever gets; then another page, and the browser's way back; clicks and links."""
    layer = Model("A link opens its own state.").layers()[5]
    mechanism = Mechanism(mask=SlidingWindow(3), normalizer=Softmax(0.5))
    expected = mechanism(layer.inputs, heads=[11]).weights[0].numpy()
    with serving(tmp_path / "log", None, "/attn") as address:
        with opened(browser, address) as explore:
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
            explore.page.goto(f"{address}/lessons")
            explore.page.get_by_role("link", name="Windows and sinks").click()
            Masks(explore.page, address).painted()
        for unknown in ("/vendor/nothing.js", "/masks/nothing", "/static/js/nothing.js", "-wrong/", "-wrong/masks"):
            assert httpx2.get(address + unknown).status_code == 404


def test_an_unknown_address_answers_404(address: str) -> None:
    for unknown in ("/vendor/nothing.js", "/unknown", "/masks/nothing", "/static/js/nothing.js", "/attn-wrong/masks"):
        assert httpx2.get(address + unknown).status_code == 404
    for page in ("", "/", "/masks", "/explore?layer=x"):
        assert "<html" in httpx2.get(address + page).raise_for_status().text
