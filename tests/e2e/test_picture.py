"""A picture beside the map of a vision transformer, in a real browser."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.support.browser import shared
from tests.support.tiny_models import png


@pytest.mark.parametrize("size", [(1280, 800), (390, 844)], ids=["laptop", "phone"])
def test_patches_are_read_pinned_and_turned_round(
    browser: Browser, address: str, saved: Path, size: tuple[int, int]
) -> None:
    with shared(browser, address, *size) as explore:
        explore.open(f"?source=Model&model={saved / 'vit'}")
        picture = explore.chart("picture")
        stage, sentence = picture.locator(".attnviz-stage"), picture.locator(".attnviz-sentence")
        expect(sentence).to_contain_text("[CLS] gives")
        expect(picture.locator("svg.attnviz-overlay > rect")).to_have_count(16)
        stage.scroll_into_view_if_needed()
        area = picture.locator(".nsewdrag").bounding_box()
        assert area
        assert area["width"] == pytest.approx(area["height"], abs=1)

        def patch(row: int, column: int) -> tuple[float, float]:
            return area["x"] + (column + 0.5) * area["width"] / 4, area["y"] + (row + 0.5) * area["height"] / 4

        turn = picture.get_by_role("button", name="Who looks at it")
        turn.click()
        expect(sentence).to_contain_text("Who looks at [CLS]")
        turn.click()
        explore.page.mouse.move(*patch(1, 2))
        expect(sentence).to_have_text(
            re.compile(r"\[CLS\] gives [\d.]+ of its attention to the patch in row 1, column 2")
        )
        weights = explore.weights()
        said = float(re.search(r"gives ([\d.]+) of", sentence.inner_text()).group(1))  # type: ignore[union-attr]
        assert said == pytest.approx(weights[0][7], rel=0.02)
        expect(explore.heatmap.locator(".attnviz-sentence")).to_contain_text("1·2")
        runs = explore.page.locator("[data-testid=stApp]").get_attribute("data-test-script-state")
        assert runs == "notRunning"  # reading takes no run of the script
        explore.page.mouse.click(*patch(2, 3))
        explore.expect_in_link("pinned", "12+%C2%B7+2%C2%B73")
        expect(sentence).to_contain_text("The patch in row 2, column 3 gives")  # while the pointer rests there
        explore.painted()
        turn.click()
        expect(sentence).to_contain_text("Who looks at the patch in row 2, column 3")
        explore.upload({"name": "wide.png", "mimeType": "image/png", "buffer": png((90, 30))})
        explore.painted()
        expect(sentence).to_contain_text("row 2, column 3")
        covers = picture.locator("svg.attnviz-overlay > rect[fill='#000']")
        smooth = picture.get_by_role("button", name="Smooth")
        expect(covers).to_have_count(16)
        smooth.press("Enter")
        expect(smooth).to_have_attribute("aria-pressed", "true")
        expect(picture.locator("svg.attnviz-overlay > image")).to_have_count(1)
        expect(covers).to_have_count(0)
        smooth.press("Enter")
        picture.get_by_role("slider").press("Home")
        expect(covers.first).to_have_attribute("fill-opacity", "0.000")
