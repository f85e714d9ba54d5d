"""The menu of models on Explore, in a browser."""

from playwright.sync_api import expect

from attnviz.models.hub import SMOLLM2
from attnviz.models.smollm2 import smollm2
from attnviz.text import EXAMPLE
from tests.support.browser import Browser, shared


def test_a_model_is_chosen_and_is_in_the_link(browser: Browser, address: str) -> None:
    with shared(browser, address) as explore:
        explore.open("?layer=layer+16&head=Head+0&text=the+fox").choose("Model", SMOLLM2)
        explore.expect_in_link("model", SMOLLM2.replace("/", "%2F"))
        explore.open(f"?model={SMOLLM2}&layer=layer+16&head=Head+0&mosaic=All+layers")
        layer = smollm2().layers(EXAMPLE)[16]
        explore.expect_weights(layer.mechanism(layer.inputs).maps[0])
        expect(explore.mosaic).to_have_attribute("data-columns", "30")
        expect(explore.mosaic).to_have_attribute("data-rows", "9")
