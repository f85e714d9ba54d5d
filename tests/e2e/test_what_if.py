"""What if, on the Transformer page, in a real browser."""

import re
from collections.abc import Iterator

import numpy as np
import pytest
from playwright.sync_api import expect

from attnviz.masks import Band, Full
from attnviz.models.interventions import Intervention
from attnviz.state.transformer import first_head
from attnviz.translator import EXAMPLES, load
from attnviz.translator.encoder_decoder import USE_LAYERS
from attnviz.views.translator_maps import use_maps
from tests.support.browser import AppPage, Browser, shared


class WhatIf(AppPage):
    """The tab of the Transformer page."""

    path, charts = "transformer", ("changed-map", "trained-map", "changed-heads", "trained-heads")

    def tries(self, name: str) -> None:
        self.page.locator(".st-key-try").get_by_text(name, exact=True).click()

    def translation(self, side: int) -> list[str]:
        return self.page.locator(".attnviz-compared").nth(side).locator("li").all_inner_texts()


@pytest.fixture
def what_if(browser: Browser, address: str) -> Iterator[WhatIf]:
    with shared(browser, address, kind=WhatIf) as page:
        yield page


def test_a_change_is_tried_and_its_maps_are_those_of_the_library(what_if: WhatIf) -> None:
    what_if.open("?tab=What+if")
    what_if.tries("Cut the encoder to a window")
    translations = {
        "trained-map": load().translate(EXAMPLES[0]),
        "changed-map": load().translate(EXAMPLES[0], [Intervention(Band(1), layers=USE_LAYERS["encoder"])]),
    }
    for _ in range(2):  # at once, and from the link
        expect(what_if.page.get_by_text("The translation changes where words are marked.")).to_be_visible()
        what_if.expect_in_link("encoder-mask", "Band")
        what_if.expect_in_link("encoder-mask.width", "1")
        what_if.painted(rows=7)
        head = first_head("encoder", load())
        for side, (key, translation) in enumerate(translations.items()):
            weights = np.array(what_if.weights(what_if.chart(key)), dtype=float)
            np.testing.assert_allclose(weights, use_maps(translation, "encoder").weights[head], atol=2e-6)
            assert [one.split()[0] for one in what_if.translation(side)] == [step.word for step in translation.steps]
        what_if.page.reload()
        what_if.painted()


def test_the_decoder_sees_the_future_and_a_cell_is_marked_on_both_sides(what_if: WhatIf) -> None:
    what_if.open("?tab=What+if&decoder-mask=Full&decoder-head=Layer+0%2C+head+3&word=8").painted(rows=8)
    weights = np.array(what_if.weights(), dtype=float)
    translation = load().translate(EXAMPLES[0], [Intervention(Full(), layers=USE_LAYERS["decoder"])])
    np.testing.assert_allclose(weights, use_maps(translation, "decoder").weights[3], atol=2e-6)
    assert not np.isnan(weights).any()
    what_if.heatmap.scroll_into_view_if_needed()
    what_if.page.mouse.move(*what_if.place(what_if.heatmap, 2, 5, 8, 8))
    expect(what_if.sentence).to_have_text(re.compile("petite.* gives .* to .*est"))
    trained = what_if.chart("trained-map").locator(".attnviz-sentence")
    expect(trained).to_have_text(re.compile("petite.* may not look at .*est"))
