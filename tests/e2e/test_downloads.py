"""What a person takes away, opened as they would open it."""

import csv
import io
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Download, Locator, expect

from attnviz.sources import Model
from tests.support.browser import Browser, Explore, place_of


def downloaded(explore: Explore, button: Locator, folder: Path) -> Path:
    with explore.page.expect_download() as download:
        button.click()
    got: Download = download.value
    path = folder / got.suggested_filename
    got.save_as(path)
    return path


def file_button(chart: Locator, name: str) -> Locator:
    """The button of a file in the menu of a chart, which is opened."""
    chart.locator(".attnviz-files > summary").click()
    return chart.get_by_role("button", name=name, exact=True)


def expected() -> np.ndarray:
    layer = Model().layers()[3]
    return layer.mechanism(layer.inputs, heads=[1]).weights[0].numpy()


def matrix(csv_file: Path) -> np.ndarray:
    """The weights of a file, whose columns are the keys of the example."""
    header, *rows = csv.reader(io.StringIO(csv_file.read_text("utf-8-sig")))
    assert header[1:] == list(Model().layers()[0].inputs.key_tokens)
    return np.array([row[1:] for row in rows], dtype=float)


def test_weights_a_picture_and_the_link_are_downloaded(explore: Explore, tmp_path: Path, browser: Browser) -> None:
    explore.open()
    explore.page.get_by_test_id("stPopover").get_by_text("Download", exact=True).click()
    table, npz, figure = (
        downloaded(explore, explore.page.get_by_role("button", name=name), tmp_path)
        for name in ("Weights as CSV", "Weights as .npz", "Figure as HTML")
    )
    np.testing.assert_allclose(matrix(table), expected(), atol=2e-6)
    with np.load(npz, allow_pickle=False) as file:
        np.testing.assert_allclose(file["weights"], expected(), atol=2e-6)
        assert tuple(file["tokens"]) == Model().layers()[0].inputs.query_tokens
    page = browser.new_page()
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto(figure.as_uri())  # it opens without a server
    expect(page.locator(".heatmaplayer image")).to_have_count(1)
    labels = page.locator(".ytick text").evaluate_all("ticks => ticks.map(tick => tick.textContent)")
    assert labels == list(Model().layers()[0].inputs.query_tokens)
    assert not [url for url in requests if not url.startswith(("file:", "data:", "blob:"))]
    page.close()

    explore.open("?head=Head+4&mask=Causal")
    explore.page.get_by_test_id("stPopover").get_by_text("Download", exact=True).click()
    link = explore.page.get_by_test_id("stCode")
    expect(link).to_have_text(re.compile(r"head=Head\+4&mask=Causal"))
    explore.page.goto(link.inner_text().strip())
    explore.painted()
    expect(explore.chosen("Head").locator("input")).to_have_value("Head 4")


def test_figures_are_downloaded_with_their_numbers_and_shown_as_a_table(
    explore: Explore, tmp_path: Path, browser: Browser
) -> None:
    explore.open()
    path = downloaded(explore, file_button(explore.heatmap, "Numbers as CSV"), tmp_path)
    np.testing.assert_allclose(matrix(path), expected(), atol=2e-6)
    menu = explore.mosaic.locator(".attnviz-files > summary")
    menu.click()
    expect(explore.mosaic.get_by_role("button", name="Copy the link")).to_be_visible()
    expect(explore.mosaic.get_by_role("button", name="Numbers as CSV")).to_have_count(0)  # small maps are no table
    explore.page.keyboard.press("Escape")
    expect(explore.mosaic.get_by_role("button", name="Copy the link")).to_have_count(0)
    expect(menu).to_be_focused()
    page = browser.new_page()
    for chart, words in ((explore.heatmap, {"animal", "0.68"}), (explore.mosaic, {"Head 0", "Head 11"})):
        png, svg = (downloaded(explore, file_button(chart, kind), tmp_path) for kind in ("PNG", "SVG"))
        assert png.read_bytes().startswith(b"\x89PNG")
        texts = ElementTree.parse(svg).iter("{http://www.w3.org/2000/svg}text")
        assert words <= {"".join(text.itertext()) for text in texts}
        for path in (png, svg):
            page.goto(path.as_uri())
            width = "document.querySelector('svg')?.width.baseVal.value ?? document.images[0].naturalWidth / 2"
            assert page.evaluate(width) == pytest.approx(place_of(chart.locator(".attnviz-stage"))["width"], abs=1)
    page.close()
    explore.page.get_by_text("Show the numbers as a table").click()
    explore.expect_in_link("table", "true")
    table = explore.page.locator("table").filter(has_text="query")
    expect(table).to_be_visible()
    explore.settled()
    rows = [row.replace("< ", "").split("\t")[1:] for row in table.inner_text().splitlines()][1:]
    np.testing.assert_allclose(np.array(rows, dtype=float), expected(), atol=6e-3)
