"""What a person takes away, opened as they would open it."""

import csv
import io
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Download, Locator, expect

from attnviz.sources import Model
from tests.support.browser import Browser, Explore, opened, place_of


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


@pytest.fixture(scope="module")
def downloads(browser: Browser, address: str) -> Iterator[Explore]:
    with opened(browser, address) as explore:
        explore.open().page.get_by_test_id("stPopover").get_by_text("Download", exact=True).click()
        yield explore


def test_weights_as_csv(downloads: Explore, tmp_path: Path) -> None:
    path = downloaded(downloads, downloads.page.get_by_role("button", name="Weights as CSV"), tmp_path)
    header, *rows = csv.reader(io.StringIO(path.read_text("utf-8-sig")))
    assert header[1:] == list(Model().layers()[0].inputs.key_tokens)
    np.testing.assert_allclose(np.array([row[1:] for row in rows], dtype=float), expected(), atol=2e-6)


def test_weights_as_npz(downloads: Explore, tmp_path: Path) -> None:
    path = downloaded(downloads, downloads.page.get_by_role("button", name="Weights as .npz"), tmp_path)
    with np.load(path, allow_pickle=False) as file:
        np.testing.assert_allclose(file["weights"], expected(), atol=2e-6)
        assert tuple(file["tokens"]) == Model().layers()[0].inputs.query_tokens


def test_the_picture_as_one_html_file_opens_without_a_server(
    downloads: Explore, tmp_path: Path, browser: Browser
) -> None:
    path = downloaded(downloads, downloads.page.get_by_role("button", name="Figure as HTML"), tmp_path)
    page = browser.new_page()
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto(path.as_uri())
    expect(page.locator(".heatmaplayer image")).to_have_count(1)
    labels = page.locator(".ytick text").evaluate_all("ticks => ticks.map(tick => tick.textContent)")
    assert labels == list(Model().layers()[0].inputs.query_tokens)
    assert not [url for url in requests if not url.startswith(("file:", "data:", "blob:"))]
    page.close()


def test_the_numbers_of_a_figure_and_its_link(explore: Explore, tmp_path: Path) -> None:
    explore.open()
    path = downloaded(explore, file_button(explore.heatmap, "Numbers as CSV"), tmp_path)
    header, *rows = csv.reader(io.StringIO(path.read_text("utf-8-sig")))
    assert header[1:] == list(Model().layers()[0].inputs.key_tokens)
    np.testing.assert_allclose(np.array([row[1:] for row in rows], dtype=float), expected(), atol=2e-6)
    menu = explore.mosaic.locator(".attnviz-files > summary")
    menu.click()
    expect(explore.mosaic.get_by_role("button", name="Copy the link")).to_be_visible()
    expect(explore.mosaic.get_by_role("button", name="Numbers as CSV")).to_have_count(0)  # small maps are no table
    explore.page.keyboard.press("Escape")
    expect(explore.mosaic.get_by_role("button", name="Copy the link")).to_have_count(0)
    expect(menu).to_be_focused()


def test_the_picture_as_png_and_svg(explore: Explore, tmp_path: Path, browser: Browser) -> None:
    explore.open()
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


def test_the_link_to_copy_is_the_one_in_the_address_bar(explore: Explore) -> None:
    explore.open("?head=Head+4&mask=Causal")
    explore.page.get_by_test_id("stPopover").get_by_text("Download", exact=True).click()
    link = explore.page.get_by_test_id("stCode")
    expect(link).to_have_text(re.compile(r"head=Head\+4&mask=Causal"))
    explore.page.goto(link.inner_text().strip())
    explore.painted()
    expect(explore.chosen("Head").locator("input")).to_have_value("Head 4")


def test_a_table_on_request(explore: Explore) -> None:
    explore.open()
    explore.page.get_by_text("Show the numbers as a table").click()
    explore.expect_in_link("table", "true")
    table = explore.page.locator("table").filter(has_text="query")
    expect(table).to_be_visible()
    explore.settled()
    rows = [row.split("\t")[1:] for row in table.inner_text().splitlines()][1:]
    np.testing.assert_allclose(np.array(rows, dtype=float), expected(), atol=6e-3)
