"""What if, on the Models page, in a real browser: a head of MiniLM is ablated, and the link says so."""

from collections.abc import Iterator

import numpy as np
import pytest
from playwright.sync_api import expect

from attnviz.analysis.head_maps import head_map
from attnviz.masks import Causal
from attnviz.models.intervention_run import cosine, run_with_interventions
from attnviz.models.interventions import Intervention
from attnviz.models.minilm import minilm
from attnviz.normalizers import Softmax
from attnviz.text import EXAMPLE
from tests.support.browser import AppPage, Browser, shared


class WhatIf(AppPage):
    """The tab of the Models page."""

    path, charts = "models", ("if-after", "if-before", "if-moved")

    def tries(self, name: str) -> None:
        self.page.locator(".st-key-if-try").get_by_text(name, exact=True).click()


@pytest.fixture
def what_if(browser: Browser, address: str) -> Iterator[WhatIf]:
    with shared(browser, address, kind=WhatIf) as page:
        yield page


def test_a_change_is_tried_seen_above_it_and_kept_in_the_link(what_if: WhatIf) -> None:
    ablated, before = Intervention(ablated=((3, 1),)), minilm().layers(EXAMPLE)
    after = run_with_interventions(minilm(), [ablated], EXAMPLE)
    what_if.open("?inspect=What+if").tries("Ablate this head")
    sentence = f"a cosine of {cosine(minilm().output(minilm().encode(EXAMPLE)), after.output):.3f} with"
    for _ in range(2):  # at once, and from the link
        expect(what_if.page.locator(".attnviz-summary")).to_contain_text(sentence)
        what_if.expect_in_link("if-off", "encoder+3%2C+head+1")
        what_if.painted(rows=16)
        what_if.expect_weights(np.full((16, 16), np.nan), "if-after")
        what_if.expect_weights(head_map(before[3].inputs, before[3].mechanism, 1).numpy(), "if-before")
        what_if.page.reload()
        what_if.painted()

    # A click on a head above opens it: it attends otherwise, because it reads what is left.
    grid = what_if.chart("if-moved")
    grid.scroll_into_view_if_needed()
    what_if.page.mouse.click(*what_if.cell(5, 7, grid))
    what_if.expect_in_link("layer", "encoder+5")
    what_if.expect_in_link("head", "Head+7")
    expect(what_if.page.locator(".attnviz-change").last).to_contain_text("encoder 5, head 7")
    maps = [head_map(layers[5].inputs, layers[5].mechanism, 7).numpy() for layers in (before, after.layers)]
    assert np.abs(maps[0] - maps[1]).max() > 1e-3
    for key, expected in zip(("if-before", "if-after"), maps, strict=True):
        what_if.expect_weights(expected, key)


def test_a_cell_is_marked_on_both_sides(what_if: WhatIf) -> None:
    what_if.open("?inspect=What+if&if-mask=Causal").painted(rows=16)
    layer = run_with_interventions(minilm(), [Intervention(Causal())], EXAMPLE).layers[3]
    what_if.expect_weights(head_map(layer.inputs, layer.mechanism, 1).numpy(), "if-after")
    what_if.heatmap.scroll_into_view_if_needed()
    what_if.page.mouse.move(*what_if.cell(2, 10))
    expect(what_if.sentence).to_have_text("animal may not look at it.")
    expect(what_if.chart("if-before").locator(".attnviz-sentence")).to_contain_text("animal gives")


def test_on_a_phone_what_comes_of_a_tap_is_seen(browser: Browser, address: str) -> None:
    with shared(browser, address, 390, 844, touch=True, kind=WhatIf) as phone:
        phone.open("?inspect=What+if").tries("Temperature 4")
        after = run_with_interventions(minilm(), [Intervention(normalizer=Softmax(4.0))], EXAMPLE)
        summary = phone.page.locator(".attnviz-summary")
        expect(summary).to_contain_text(
            f"a cosine of {cosine(minilm().output(minilm().encode(EXAMPLE)), after.output):.3f}"
        )
        expect(summary).to_be_in_viewport(ratio=1)
        expect(phone.page.get_by_text("Changed in all layers. Weights: Softmax with temperature 4.")).to_be_in_viewport(
            ratio=1
        )
        expect(phone.page.get_by_text("As trained encoder 3, head 1")).to_be_in_viewport(ratio=1)
        # What is set by hand is folded away, and there when it is asked for.
        normalizer = phone.page.locator(".st-key-if-normalizer input[role=combobox]")
        expect(normalizer).to_be_hidden()
        phone.page.get_by_text("Change it yourself").click()
        phone.expect_in_link("if-own", "true")
        expect(normalizer).to_have_value("Softmax")


def test_in_a_presentation_the_changes_worth_trying_stay(what_if: WhatIf) -> None:
    what_if.open("?inspect=What+if&present=1").tries("Temperature 4")
    what_if.expect_in_link("if-normalizer", "Softmax")
    expect(what_if.page.locator(".attnviz-summary")).to_contain_text("a cosine of")
    expect(what_if.page.get_by_text("Change it yourself")).to_be_hidden()
    expect(what_if.page.locator(".st-key-text textarea")).to_be_visible()
    expect(what_if.page.locator(".st-key-second textarea")).to_be_hidden()  # beside it, of models that take pairs


def test_enter_takes_the_head_whose_name_is_typed(what_if: WhatIf) -> None:
    """Not all matches, nor a head whose name only begins so, also if the typed one is already chosen."""
    what_if.open("?inspect=What+if&if-own=true").painted(rows=16)
    field = what_if.page.locator(".st-key-if-off input")
    for head in (1, 11, 1):
        field.fill(f"encoder 1, head {head}")
        expect(what_if.page.get_by_role("option").first).to_contain_text(f"head {head}")
        field.press("Enter")
        expect(what_if.page.get_by_text("Ablated: encoder 1, head").first).to_be_visible()
        expect(what_if.page.locator(".st-key-if-off [data-tag]").first).to_have_text("encoder 1, head 1")
    expect(what_if.page.locator(".st-key-if-off [data-tag]")).to_have_text(["encoder 1, head 1", "encoder 1, head 11"])
    expect(what_if.page.get_by_text("Ablated: encoder 1, heads 1, 11.")).to_be_visible()
    assert field.input_value() == "encoder 1, head 1"
