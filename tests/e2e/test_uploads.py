"""Files brought to the Explore page, in a real browser."""

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
