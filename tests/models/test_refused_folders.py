"""Folders that are refused: nothing in them is trusted, and no code of theirs is run."""

import json
import os
import struct
from pathlib import Path

import pytest
import safetensors.torch
import torch
import transformers as hf

from attnviz.models.loading import inspect_folder
from tests.support.tiny_models import refusal


def test_a_folder_that_is_no_model(tmp_path):
    (tmp_path / "notes.txt").write_text("x")
    assert "is not a model: it has no config.json" in refusal(tmp_path)
    assert "There is no folder" in refusal(tmp_path / "nowhere")
    assert "There is no folder" in refusal("half \0 a name")
    assert "is a file, and not a GGUF file. Give the folder that holds it" in refusal(tmp_path / "notes.txt")
    (tmp_path / "config.json").mkdir()
    assert "has no config.json" in refusal(tmp_path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is not valid JSON"),
        ("[" * 100_000, "is not valid JSON"),
        ('{"hidden_size": 1' + "0" * 5_000 + "}", "is not valid JSON"),
        ("[1]", "holds no object with names"),
        ("{}", "has no model_type"),
        ('{"model_type": 5}', "has no model_type"),
        ('{"x": "' + "x" * (1 << 20) + '"}', "bytes; at most 1,048,576 are read"),
        ("\ud83d".encode("utf-16-le", "surrogatepass").decode("latin-1"), "is not valid JSON"),
    ],
    ids=["cut off", "deep", "digits", "list", "empty", "number", "large", "not text"],
)
def test_a_config_that_is_none(copied, text, words):
    folder = copied()
    (folder / "config.json").write_text(text, encoding="latin-1")
    assert words in refusal(folder)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"num_hidden_layers": 2**40}, "“num_hidden_layers” is 1,099,511,627,776; no model has more than 1,024"),
        ({"hidden_size": 10**12}, "“hidden_size” is 1,000,000,000,000; no model has more than 16,777,216"),
        ({"hidden_size": 1e12}, "“hidden_size” is 1,000,000,000,000.0; no model has more than"),
        ({"vocab_size": 10**9}, "“vocab_size” is 1,000,000,000; no model has more than 4,194,304"),
        ({"num_labels": 10**9}, "“num_labels” is 1,000,000,000; no model has more than"),
        ({"max_position_embeddings": -(10**40)}, "“max_position_embeddings” is larger than 1e+30"),
        ({"parts": [{"n_layers": [5, 9_999]}]}, "“n_layers” is 9,999"),
        ({"hidden_size": float("nan")}, "“hidden_size” is nan, which no model can have"),
        ({"layer_norm_eps": float("inf")}, "“layer_norm_eps” is inf, which no model can have"),
        ({"parts": {"attention_dropout": [float("-inf")]}}, "“attention_dropout” is -inf, which no model can have"),
        ({"depths": [2] * 2_000}, "has 2,000 numbers for “depths”; no model has more than 1,024"),
        ({"num_hidden_layers": 1_000}, "of “bert” describes far more parts than its files have weights for"),
        ({"vocab_size": 4_000_000, "hidden_size": 4_096}, "parameters, which need 61.6 GB"),
        ({"num_hidden_layers": 20, "hidden_size": 16_384}, "parameters, which need "),
        ({"part": json.loads('{"x":' * 900 + "1" + "}" * 900)}, "has parts within parts, more than 16 deep"),
        ({"hidden_size": 31}, "cannot build “bert” from its config.json. The reason given is: “The hidden size"),
        ({"hidden_size": -4}, "cannot build “bert” from its config.json"),
        ({"hidden_size": "wide"}, "cannot build “bert” from its config.json"),
        ({"num_attention_heads": 0}, "cannot build “bert” from its config.json"),
        ({"quantization_config": {"quant_method": "bitsandbytes"}}, "are quantized, and only plain ones are read"),
        ({"model_type": "evil"}, "a model of the type “evil”, which transformers"),
        ({"model_type": "evil", "auto_map": {"AutoModel": "evil.Model"}}, "code of its own, which is never run here"),
        ({"model_type": "wav2vec2"}, "reads neither text nor images: its input is called “input_values”"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_config_that_is_refused(copied, config, words):
    folder = copied(**config)
    (folder / "evil.py").write_text(f"open({str(folder / 'ran')!r}, 'w')")
    assert words in refusal(folder)
    assert not (folder / "ran").exists()


def test_a_pickle_is_not_opened(copied):
    folder = copied(without=("model.safetensors",))
    assert "has no weights in model.safetensors. Save the model" in refusal(folder)
    (folder / "model.gguf").touch()
    assert "It has “model.gguf”, which is not read here" in refusal(folder)

    class Evil:
        def __reduce__(self):
            return Path.touch, (folder / "ran",)

    torch.save({"x": Evil()}, folder / "pytorch_model.bin")
    assert "only in “pytorch_model.bin”, a pickle, which can run code" in refusal(folder)
    assert not (folder / "ran").exists()


def test_half_the_weights(copied):
    folder = copied()
    weights = safetensors.torch.load_file(folder / "model.safetensors")
    safetensors.torch.save_file(dict(list(weights.items())[::2]), folder / "model.safetensors", {"format": "pt"})
    sentence = refusal(folder, load=True)
    own = hf.AutoModel.from_config(hf.AutoConfig.from_pretrained(folder))
    lacking = [key for key in own.state_dict() if "pooler" not in key and f"bert.{key}" not in list(weights)[::2]]
    assert f"{len(lacking)} of the {len(own.state_dict())} weights of “bert” are missing" in sentence
    assert "“embeddings." in sentence


def test_weights_of_another_shape(copied):
    assert "weights of “bert” are missing from its files or have another shape, such as “encoder.layer." in refusal(
        copied(intermediate_size=64), load=True
    )


def test_weights_that_find_no_place_beside_code_that_was_not_run(copied):
    folder = copied(auto_map={"AutoModel": "own.Model"})
    weights = safetensors.torch.load_file(folder / "model.safetensors")
    weights["bert.encoder.layer.0.attention.self.slopes"] = torch.ones(4)
    safetensors.torch.save_file(weights, folder / "model.safetensors", {"format": "pt"})
    assert "such as" in refusal(folder, load=True)


def test_adapters_and_pipelines(copied, tmp_path):
    folder = copied()
    (folder / "adapter_config.json").write_text('{"base_model_name_or_path": "evil/base"}')
    assert "is an adapter, which only changes another model" in refusal(folder)
    (folder / "config.json").unlink()
    assert "is an adapter, which only changes another model" in refusal(folder)
    (tmp_path / "model_index.json").touch()
    assert "holds several models" in refusal(tmp_path)


def header(folder, text, follows=b""):
    data = text if isinstance(text, bytes) else struct.pack("<Q", len(text)) + text.encode()
    (folder / "model.safetensors").write_bytes(data + follows)


@pytest.mark.parametrize(
    ("text", "follows", "words"),
    [
        (b"", b"", "header too small"),
        (b"\xff" * 8, b"{}", "header too large"),
        ("{}" + " " * (32 << 20), b"", "header too large"),
        ('{"a": {"dtype": "F32"}}', b"", "missing field `shape`"),
        (
            '{"a": {"dtype": "F32", "shape": [1000000000000], "data_offsets": [0, 4]}}',
            b"1234",
            "invalid shape",
        ),
        ('{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}', b"1234", "file not fully covered"),
        (
            f'{{"a": {{"dtype": "F32", "shape": [{"9" * 4_000}, -{"9" * 4_000}], "data_offsets": [0, 4]}}}}',
            b"1234",
            "number out of range",
        ),
        ('{"a": {"dtype": "EVIL", "shape": [1], "data_offsets": [0, 4]}}', b"1234", "unknown variant `EVIL`"),
        ('{"a": {"dtype": "C64", "shape": [1], "data_offsets": [0, 8]}}', b"12345678", "numbers of the type “C64”"),
        (
            '{"a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]},'
            ' "b": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}}',
            b"1234",
            "invalid offset for tensor",
        ),
        (
            f'{{"a": {{"dtype": "F32", "shape": {[10**10] * 5_000}, "data_offsets": [0, 4]}}}}',
            b"1234",
            "overflow computing buffer size",
        ),
    ],
)
def test_a_header_that_lies(copied, text, follows, words):
    folder = copied(without=("model.safetensors",))
    header(folder, text, follows)
    said = refusal(folder)
    assert words in said
    assert "“model.safetensors” was damaged or cut off; download it again." in said or "C64" in said


def test_weights_cut_off(copied):
    folder = copied()
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[:-100])
    assert "was damaged or cut off; download it again" in refusal(folder)


@pytest.mark.parametrize(
    ("places", "words"),
    [
        (5, "does not say which file holds which weights"),
        ({}, "does not say which file holds which weights"),
        ({"a": "../bert/other.safetensors"}, "names “../bert/other.safetensors”, which is not a file of this folder"),
        ({"a": "/etc/passwd"}, "names “/etc/passwd”, which is not a file of this folder"),
        ({"a": "pytorch_model.bin"}, "names “pytorch_model.bin”, which is not a file of this folder"),
        ({"a": "model-1.safetensors"}, "“model-1.safetensors”, which holds some of the weights, is missing"),
    ],
    ids=str,
)
def test_an_index_that_leads_elsewhere(copied, places, words):
    folder = copied(without=("model.safetensors",))
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    assert words in refusal(folder)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_link_that_leads_out_of_the_folder(copied, saved, name):
    folder = copied(without=(name,) if name != "config.json" else ())
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(saved / "bert" / name)
    assert f"“{name}” is a link that leads out of the folder" in refusal(folder)


@pytest.mark.parametrize("name", ["bpe.codes", "additional_chat_templates/x.jinja"])
def test_what_a_tokenizer_may_open_leads_nowhere_else(copied, tmp_path, name):
    folder, secret = copied(), tmp_path / "secret"
    secret.write_text("s")
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).symlink_to(secret)
    assert f"“{Path(name).name}” is a link that leads out of the folder" in refusal(folder)
    (folder / name).unlink()
    os.mkfifo(folder / name)
    assert f"“{Path(name).name}” is not a file that can be read" in refusal(folder)


def test_what_nobody_opens_may_be_anywhere(copied, saved):
    folder = copied()
    (folder / "pytorch_model.bin").symlink_to(saved / "bert" / "model.safetensors")
    assert inspect_folder(folder).parameters > 0


def test_files_that_never_end_are_not_opened(copied):
    folder = copied(without=("tokenizer.json",))
    os.mkfifo(folder / "tokenizer.json")
    assert "“tokenizer.json” is not a file that can be read" in refusal(folder)


def test_a_folder_may_itself_be_a_link(saved, tmp_path):
    (tmp_path / "latest").symlink_to(saved / "bert")
    assert inspect_folder(tmp_path / "latest").parameters > 0
    assert inspect_folder(saved / "gpt2" / ".." / "bert").name == "bert"


def test_a_model_larger_than_allowed_is_refused_with_the_numbers(saved, monkeypatch):
    monkeypatch.setenv("ATTNVIZ_MODEL_MB", "1")
    assert inspect_folder(saved / "bert").size < 1_000_000
    monkeypatch.setattr("attnviz.base.settings.MB", 1_000)
    assert "parameters, which need 78.8 KB of memory" in (said := refusal(saved / "bert"))
    assert "at most 0.977 KB may be used here" in said


@pytest.mark.parametrize("value", ["0", "many", "-1", "1.5"])
def test_a_setting_that_is_no_number(saved, monkeypatch, value):
    monkeypatch.setenv("ATTNVIZ_MODEL_MB", value)
    assert f"ATTNVIZ_MODEL_MB must be a whole number of megabytes, 1 or more; it is “{value}”" in refusal(
        saved / "bert"
    )
