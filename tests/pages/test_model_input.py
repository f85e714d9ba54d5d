"""What a model of a source reads on Explore, without a browser: a text, two, or a picture, and every bad input.

What is drawn is compared with what the models themselves say of their attention, run eagerly by transformers.
"""

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
import transformers as hf
from streamlit.testing.v1 import AppTest

from attnviz.base.formatting import byte_size
from attnviz.models import TRANSLATOR, model_cache
from attnviz.models.hub import MINILM, SMOLLM2
from attnviz.ui import model_input
from tests.support.app import contents, ok, open_page
from tests.support.tiny_hub import Played, played_hub
from tests.support.tiny_models import TEXT, byte_level, png
from tests.support.waiting import until

pytestmark = pytest.mark.usefixtures("isolated")
page = partial(open_page, "explore")


@pytest.fixture
def hub(saved, tmp_path, monkeypatch):
    """A hub on this computer with the tiny BERT as org/bert."""
    repos = {"org/bert": {file.name: file.read_bytes() for file in (saved / "bert").iterdir()}}
    with played_hub(repos, tmp_path / "hub") as hub:
        monkeypatch.setattr(model_cache, "HUB", hub)
        yield


def refused(app: AppTest, words: str, picture: bool = False) -> AppTest:
    """The page, on which that is said; no other model is shown, and a picture of the same one where it has one."""
    assert not app.exception
    [error] = app.error
    assert words in error.value.replace("\\", "")
    assert bool(app.get("bidi_component")) == picture
    return app


def own(folder: Path, text: str = TEXT, **more) -> tuple:
    """All attentions of a model, by its own eager implementation."""
    auto = hf.AutoModelForSeq2SeqLM if folder.name in ("t5", "bart") else hf.AutoModel
    model = auto.from_pretrained(folder, attn_implementation="eager").eval()
    batch = {} if folder.name == "vit" else hf.AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt")
    with torch.no_grad():
        return model(**batch, **more, output_attentions=True)


def same(chart, expected: torch.Tensor, within: float = 1e-5) -> None:
    """The drawn weights are those of the model; nothing is drawn where it may not look."""
    weights = chart.figure.data[0].z
    assert weights.shape == tuple(expected.shape)
    np.testing.assert_allclose(np.nan_to_num(weights), expected, atol=within)


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "gemma2"])
def test_a_folder_shows_the_models_own_attention(saved, drawn, name) -> None:
    names = [layer.name for layer in model_cache.model(str(saved / name)).layers(TEXT)]
    app = ok(page(model=saved / name, text=TEXT, layer=names[1], head="Head 2", pinned="none"))
    assert len(drawn["heads"].spec.names) == 4
    assert app.selectbox(key="model").value == str(saved / name)
    same(drawn["heatmap"], own(saved / name).attentions[1][0, 2])


def test_a_decoders_three_kinds_of_attention_have_their_names(saved, drawn) -> None:
    folder, written = saved / "t5", "a lazy dog"
    ids = hf.AutoTokenizer.from_pretrained(folder)(written, return_tensors="pt")["input_ids"]
    out = own(folder, decoder_input_ids=torch.cat([torch.tensor([[0]]), ids[:, :-1]], dim=1))
    link = {"model": folder, "text": TEXT, "model.pair": written, "head": "Head 3", "pinned": "none"}
    expected = {"encoder 1": out.encoder_attentions, "decoder 1": out.decoder_attentions}
    for layer, weights in (expected | {"decoder 1 cross": out.cross_attentions}).items():
        app = ok(page(**link, layer=layer))
        same(drawn["heatmap"], weights[1][0, 3], 1e-4)  # float32, and scores that nothing divides
    assert app.text_input(key="model.pair").label == "Decoder’s input"


def test_a_model_without_known_queries_is_shown_by_its_own_weights(tmp_path, drawn) -> None:
    config = hf.BloomConfig(vocab_size=300, hidden_size=32, n_layer=2, n_head=4)
    hf.BloomModel(config).save_pretrained(tmp_path)
    byte_level().save_pretrained(tmp_path)
    app = ok(page(model=tmp_path, text=TEXT, layer="layer 1", head="Head 2", pinned="none"))
    same(drawn["heatmap"], own(tmp_path).attentions[1][0, 2])
    assert "without the queries and keys that they come from" in contents(app)
    assert app.selectbox(key="model").value == str(tmp_path)  # another one can be chosen


def test_a_model_that_sees_is_shown_a_drawing_or_a_picture(saved, drawn) -> None:
    app = ok(page(model=saved / "vit", head="Head 2", pinned="none"))
    pixels = model_cache.model(str(saved / "vit")).encode().batch["pixel_values"]
    same(drawn["heatmap"], own(saved / "vit", pixel_values=pixels).attentions[0][0, 2])
    [picture] = app.get("image")
    assert picture.captions == ["32 × 32"]
    assert list(drawn["heatmap"].spec.query_tokens[:2]) == ["[CLS]", "0·0"]
    app.file_uploader[0].upload("red.png", png((40, 40)))
    ok(app.run())
    red = torch.tensor([1.0, -1.0, -1.0])[None, :, None, None].expand(1, 3, 32, 32)
    same(drawn["heatmap"], own(saved / "vit", pixel_values=red).attentions[0][0, 2])
    assert "The uploaded file is not in the link, and is gone after a reload." in contents(app)
    app.session_state["copy-as-python"] = True
    assert not [code for code in app.run().code if code.language == "python"]
    app.file_uploader[0].set_value(("broken.png", b"GIF89a", "image/png"))
    app.run()
    assert "This is not an image that can be read" in contents(app)
    same(drawn["heatmap"], own(saved / "vit", pixel_values=red).attentions[0][0, 2])


def test_a_pair_of_texts(saved, drawn) -> None:
    link = {"model": saved / "bert", "text": "the fox", "model.pair": "a dog", "pinned": "none"}
    app = ok(page(**link))
    assert app.text_input(key="model.pair").label == "Second text"
    batch = hf.AutoTokenizer.from_pretrained(saved / "bert")("the fox", "a dog", return_tensors="pt")
    model = hf.AutoModel.from_pretrained(saved / "bert", attn_implementation="eager").eval()
    with torch.no_grad():
        same(drawn["heatmap"], model(**batch, output_attentions=True).attentions[0][0, 0])


# What is in the way


def test_a_bad_folder_in_a_link_is_tried_again_on_request(copied) -> None:
    folder = copied()
    config = (folder / "config.json").read_text()
    (folder / "config.json").write_text("{")
    app = refused(page(model=folder), "is not valid JSON")
    (folder / "config.json").write_text(config)
    refused(app.run(), "is not valid JSON")  # not tried on every run
    app = ok(app.button(key="again").click().run())
    assert "bert (BertModel): 2 attention layers of 4 heads" in contents(app)


def test_a_folder_that_goes_away_or_is_saved_anew(copied, saved, drawn) -> None:
    folder = copied()
    app = ok(page(model=folder, text=TEXT, pinned="none"))
    before = drawn["heatmap"].figure.data[0].z
    weights = safetensors.torch.load_file(folder / "model.safetensors")
    changed = {key: value * (0.5 if "query.weight" in key else 1) for key, value in weights.items()}
    safetensors.torch.save_file(changed, folder / "model.safetensors", {"format": "pt"})
    ok(app.run())
    assert not np.array_equal(drawn["heatmap"].figure.data[0].z, before)
    same(drawn["heatmap"], own(folder).attentions[0][0, 0])
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    refused(app.run(), "There is no folder")


def test_a_text_that_cannot_be_read(saved, drawn) -> None:
    app = ok(page(model=saved / "bert", text=TEXT, pinned="none"))
    words = "This text has 62 tokens, and bert reads at most 48"
    refused(app.text_input(key="text").set_value("fox " * 60).run(), words, picture=True)
    same(drawn["heatmap"], own(saved / "bert").attentions[0][0, 0])


def test_a_name_that_can_be_none() -> None:
    refused(page(model="<b>$x$</b> **bold**"), "“<b>$x$</b> **bold**” is not the name of a model")


def test_no_network() -> None:
    app = refused(page(model="openai-community/gpt2"), "The hub cannot be reached to ask for “openai-community/gpt2”.")
    assert "No model of the hub is on this computer yet." in contents(app)
    assert app.button(key="again")


def test_an_id_that_does_not_exist(hub) -> None:
    refused(page(model="org/nothing"), "The hub has no public model “org/nothing”. Check the name for a typing error")
    Played.asked.clear()


def test_a_model_of_the_hub_says_its_size_and_is_downloaded(hub, saved, drawn) -> None:
    app = page(model="org/bert", text=TEXT, pinned="none")
    size = sum(
        (saved / "bert" / name).stat().st_size
        for name in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
    )
    assert f"org/bert is not on this computer yet. It has 20,376 parameters; {byte_size(size)}" in contents(app) or (
        f"{byte_size(size)} would be downloaded" in contents(app)
    )
    assert "it gives 0.68" not in contents(app)  # the text is for another model already
    [button] = [one for one in app.button if one.key == "download"]
    assert button.label == f"Download {byte_size(size)}"
    app = button.click().run()
    until(lambda: not app.run().info)
    ok(app)
    same(drawn["heatmap"], own(saved / "bert").attentions[0][0, 0])
    assert ok(page()).selectbox(key="model").options == [MINILM, SMOLLM2, TRANSLATOR, "org/bert"]


def test_a_download_that_fails_says_so_and_can_be_tried_again(hub, saved) -> None:
    app = page(model="org/bert", text=TEXT)
    Played.refused["org/bert/model.safetensors"] = (410, "")
    app = app.button(key="download").click().run()
    until(lambda: app.run().error)
    assert "The hub answered with the error 410" in contents(app)
    Played.refused.clear()
    app = app.button(key="again").click().run()
    assert app.button(key="download")


def test_a_hosted_instance_shows_only_what_its_owner_lists(saved, monkeypatch) -> None:
    monkeypatch.setenv("ATTNVIZ_MODELS", "org/bert")
    app = ok(page())
    assert app.selectbox(key="model").options == [MINILM, SMOLLM2, TRANSLATOR, "org/bert"]
    assert "22,713,216 parameters" in contents(app)
    assert "another" not in [one.key for one in app.text_input]
    refused(app.selectbox(key="model").select("org/bert").run(), "The hub cannot be reached")


def test_notes_of_a_model_and_of_layers_that_are_missing_are_said(copied, monkeypatch) -> None:
    folder = copied(auto_map={"AutoModel": "own.Model"})
    assert "bert comes with code of its own, which was not run" in contents(ok(page(model=folder, text=TEXT)))
    layers = model_cache.model(str(folder)).layers(TEXT)
    layers = replace(layers, missing=tuple(f"layer {i} is not shown." for i in range(5)))
    notes = model_input.model_notes(model_cache.model(str(folder)), layers)
    assert notes[1:] == [
        "layer 0 is not shown.",
        "layer 1 is not shown.",
        "layer 2 is not shown.",
        "2 more are not shown.",
    ]


def test_a_model_that_computes_nan_has_all_its_layers(copied) -> None:
    folder = copied()
    model = hf.BertModel.from_pretrained(folder)
    with torch.no_grad():
        model.encoder.layer[0].output.dense.weight[0] = torch.nan
    model.save_pretrained(folder)
    text = contents(ok(page(model=folder, text=TEXT)))
    assert "bert (BertModel): 2 attention layers of 4 heads" in text
    assert (
        "encoder 1 is not shown: it computes with NaN, which comes from the weights of encoder.layer.0.output" in text
    )
    assert "scale the vectors" not in text


def test_a_link_of_another_text_opens_the_head_that_was_seen(drawn) -> None:
    typed = ok(page())
    typed.text_input(key="text").set_value("a cat sat on the mat").run()
    opened = ok(page(text="a cat sat on the mat"))
    for app in (ok(typed), opened):
        assert [app.selectbox(key=key).value for key in ("layer", "head")] == ["encoder 3", "Head 1"]
