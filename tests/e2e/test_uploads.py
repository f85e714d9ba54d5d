"""Files brought to the Explore page, in a real browser."""

import io
import re
from pathlib import Path

import numpy as np
from playwright.sync_api import expect

from attnviz.sources import Upload
from attnviz.sources.upload import File
from attnviz.ui.downloads import SAMPLES
from tests.support.browser import Explore


def test_an_upload_of_each_kind(explore: Explore) -> None:
    explore.visit("?source=Upload&head=Head+0")
    for file in SAMPLES:
        explore.upload(file)
        layer = Upload(File(file.name, file.read_bytes())).layers()[0]
        explore.expect_weights(layer.maps([0])[0])
        expect(explore.page.get_by_text("cannot be changed")).to_have_count(1 if layer.locked else 0)


def test_a_bad_upload_is_said_and_the_last_picture_stays(explore: Explore) -> None:
    explore.visit("?source=Upload")
    explore.upload(SAMPLES[0])
    explore.painted(rows=11)
    before = explore.weights()
    for name, content, words in (
        ("ragged.csv", b"1,2\n3\n", "Row 2 has 1 number, but row 1 has 2"),
        ("weights.pkl", b"\x80\x04.", "Upload .npz, .npy, .safetensors"),
        ("cut.npz", SAMPLES[0].read_bytes()[:100], "damaged or cut off"),
    ):
        explore.upload({"name": name, "mimeType": "application/octet-stream", "buffer": content})
        expect(explore.alert).to_contain_text(words)
        explore.painted(rows=11)
        assert explore.weights() == before
        expect(explore.page.get_by_test_id("stException")).to_have_count(0)


def test_a_matrix_that_may_be_weights_is_asked_about(explore: Explore) -> None:
    explore.visit("?source=Upload")
    weights = np.array([[1, 0, 0], [0.5, 0.5, 0], [0.25, 0.25, 0.5]])
    file = "\n".join(",".join(map(str, row)) for row in weights).encode()
    explore.upload({"name": "a.csv", "mimeType": "text/csv", "buffer": file})
    expect(explore.alert).to_contain_text("may hold vectors or finished weights. Choose one of the two under “Read as”")
    explore.choose("Upload reading", "weights")  # by its key
    explore.painted(rows=3)
    explore.expect_weights(weights)
    expect(explore.page).to_have_url(re.compile(r"upload\.reading=weights"))


def test_a_matrix_is_cut_into_as_many_heads_as_are_asked_for(explore: Explore) -> None:
    explore.visit("?source=Upload&upload.number-of-heads=2&upload.heads=2")
    file = io.BytesIO()
    np.save(file, np.random.default_rng(0).normal(size=(5, 8)))
    explore.upload({"name": "vectors.npy", "mimeType": "application/octet-stream", "buffer": file.getvalue()})
    explore.painted(rows=5)
    expect(explore.mosaic).to_have_attribute("data-columns", "1")
    expect(explore.mosaic).to_have_attribute("data-rows", "2")


def test_a_sample_can_be_taken_from_the_page(explore: Explore, tmp_path: Path) -> None:
    explore.visit("?source=Upload")
    explore.page.get_by_role("button", name="Samples").click()
    with explore.page.expect_download() as download:
        explore.page.get_by_role("button", name=SAMPLES[0].name).click()
    download.value.save_as(tmp_path / "sample")
    assert (tmp_path / "sample").read_bytes() == SAMPLES[0].read_bytes()


def test_the_chart_and_its_zoom_outlive_what_comes_and_goes_above_it(explore: Explore) -> None:
    """A message must not draw the chart anew; another source's picture does not stay under the name of this one."""
    explore.open("?pinned=none")
    explore.choose("Source", "Upload")
    expect(explore.alert).to_contain_text("Upload vectors")
    expect(explore.heatmap).to_have_count(0)
    explore.upload(SAMPLES[0])
    explore.painted(rows=11)
    expect(explore.alert).to_have_count(0)
    graph = explore.heatmap.locator(".attnviz-graph")
    graph.evaluate("graph => (graph.known = true)")
    explore.upload({"name": "a.pkl", "mimeType": "application/octet-stream", "buffer": b"0"})
    expect(explore.alert).to_contain_text("This file ends in")
    explore.painted(rows=11)
    assert graph.evaluate("graph => graph.known")
