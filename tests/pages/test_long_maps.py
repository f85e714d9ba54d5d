"""Explore without a browser where a text is too long for a whole map: the numbers are those of the model's own
attention, run eagerly by transformers."""

import threading
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers as hf

from attnviz.base.formatting import number
from attnviz.figures.themes import LAST_CODE
from attnviz.page import long_maps
from attnviz.ui.server import jobs
from tests.support.app import contents, errors, ok, open_page
from tests.support.tiny_models import TEXT

LONGER = f"{TEXT} {TEXT} {TEXT}"

pytestmark = pytest.mark.usefixtures("isolated")


@pytest.fixture
def weights(saved: Path) -> np.ndarray:
    """The weights of head 1 of layer 1 of the tiny GPT-2."""
    model = hf.AutoModel.from_pretrained(saved / "gpt2", attn_implementation="eager").eval()
    with torch.no_grad():
        read = hf.AutoTokenizer.from_pretrained(saved / "gpt2")(LONGER, return_tensors="pt")
        return model(**read, output_attentions=True).attentions[1][0, 1].numpy()


@pytest.fixture
def page(saved: Path, monkeypatch: pytest.MonkeyPatch) -> partial:
    """Opens Explore on that head, with maps of at most 5 × 5 cells."""
    monkeypatch.setattr("attnviz.page.viewport.MOST_CELLS", 50)
    monkeypatch.setattr("attnviz.page.selected_maps.CELLS", 5)
    link = {"model": saved / "gpt2", "text": LONGER, "layer": "layer 1", "head": "Head 1"}
    return partial(open_page, "explore", **link)


def test_a_map_has_fewer_cells_and_the_sentences_are_exact(page, drawn, weights) -> None:
    count = len(weights)
    parts = [slice(i * count // 5, (i + 1) * count // 5) for i in range(5)]
    largest = [[weights[rows, keys].max() for keys in parts] for rows in parts]
    mass = np.array([[weights[rows, keys].sum() / len(weights[rows]) for keys in parts] for rows in parts])
    app = ok(page(pinned=f"{count - 1} · " + ok(page()).selectbox(key="pinned").options[-1].partition(" · ")[2]))
    np.testing.assert_allclose(np.nan_to_num(drawn["heatmap"].spec.downsampled.maximum), largest, atol=1e-5)
    np.testing.assert_allclose(np.nan_to_num(drawn["heatmap"].figure.data[0].z), (mass / mass.max()) ** 0.5, atol=1e-5)
    best = f"({count - 1}) gives {number(float(weights[-1].max()))} of its attention to "
    assert f"({int(weights[-1].argmax())})." in contents(app).partition(best)[2].splitlines()[0]
    app = ok(app.slider(key="part-of-queries").set_value((2, 4)).run())
    app = ok(app.slider(key="part-of-keys").set_value((0, 3)).run())
    np.testing.assert_allclose(np.nan_to_num(drawn["heatmap"].spec.downsampled.maximum), weights[2:5, :4], atol=1e-5)
    ok(page(quantity="Largest weight", scale="Linear", colors="0 to 1"))
    np.testing.assert_allclose(np.nan_to_num(drawn["heatmap"].figure.data[0].z), largest, atol=1e-5)


def test_small_maps_have_a_range_of_colors_of_their_own(page, drawn, monkeypatch) -> None:
    monkeypatch.setattr("attnviz.page.selected_maps.THUMBNAIL_CELLS", 18)
    ok(page(quantity="Mean weight", colors="Largest weight of this head"))
    assert drawn["heads"].figure.data[0].z.max() == LAST_CODE


def test_one_head_of_a_layer_that_is_too_long_as_a_whole_is_drawn(page, drawn, weights, monkeypatch) -> None:
    monkeypatch.setattr("attnviz.page.selected_maps.THUMBNAIL_CELLS", 18)
    monkeypatch.setattr("attnviz.page.selected_maps.LEAST_THUMBNAIL", 3)
    monkeypatch.setattr("attnviz.analysis.work.MOST_WORK", len(weights) ** 2 - 1)  # all heads of a layer take more
    assert not ok(page()).error
    assert drawn["heatmap"].figure.data[0].z.shape == (5, 5)
    assert len(drawn["heads"].spec.names) == 4
    assert "To measure all heads would take" in errors(page(**{"color-by": "Entropy"}))
    monkeypatch.setattr("attnviz.analysis.work.MOST_MAP_WORK", 10)
    assert "at most 10 are computed for one map" in errors(page(head="Head 0"))


def test_a_map_that_takes_long_is_drawn_from_a_sample_and_then_whole(page, drawn, monkeypatch) -> None:
    assert not ok(page()).error
    expected = np.array(drawn["heatmap"].figure.data[0].z)
    monkeypatch.setattr("attnviz.ui.cache.LONG_WORK", 0)
    monkeypatch.setattr("attnviz.page.long_maps.FIRST_SAMPLE", 1)
    refined, downsample = threading.Event(), long_maps.downsample

    def slow(*head, sample=None, progress=None, **options):
        if progress:
            assert refined.wait(20)
        return downsample(*head, sample=sample, progress=progress, **options)

    monkeypatch.setattr(long_maps, "downsample", slow)
    app = ok(page())
    coarse = np.array(drawn["heatmap"].figure.data[0].z)
    assert coarse.shape == expected.shape
    assert not np.allclose(coarse, expected, equal_nan=True)
    [progress] = app.get("progress")
    assert "This map has 5 of " in progress.proto.text
    [job] = [job for job in jobs._shared._jobs.values() if not job.is_over]
    refined.set()
    job.thread.join(20)
    app = ok(app.run())
    np.testing.assert_array_equal(drawn["heatmap"].figure.data[0].z, expected)
    assert not app.get("progress")
