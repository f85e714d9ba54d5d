"""GGUF files as models of transformers, compared with transformers' own reading of the same files."""

import shutil

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file
from transformers.modeling_gguf_pytorch_utils import get_gguf_hf_weights_map, load_gguf_checkpoint

from attnviz.models import load
from attnviz.models.gguf_conversion import (
    ARCHITECTURES,
    TENSOR_PROCESSORS,
    convert,
    weight_names,
    write_folder,
)
from attnviz.models.gguf_model import inspect_gguf
from attnviz.models.loading import inspect_folder
from attnviz.models.tokenizer_process import TokenizerProcess
from tests.support.gguf_files import LAYERS, OWN, byte_level, config_of, sentence_pieces, write


def experts(kind):
    """The weights of experts, which gguf has by other names than transformers."""
    width = OWN[kind]["moe_intermediate_size"]
    shapes = {"gate": (4, width, 64), "up": (4, width, 64), "down": (4, 64, width)}
    random = np.random.default_rng(1)
    return {
        f"blk.{layer}.ffn_{name}_exps.weight": random.normal(size=shape).astype(np.float32)
        for layer in range(LAYERS)
        for name, shape in shapes.items()
    }


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    """A cache folder of the test's own."""
    monkeypatch.setenv("ATTNVIZ_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    """A small Llama in a GGUF file."""
    return write(tmp_path_factory.mktemp("gguf") / "llama.gguf", "llama", config_of("llama"))


@pytest.mark.parametrize("quantization", ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"])
def test_config_and_weights_of_every_type(quantization, tmp_path):
    path = write(tmp_path / "llama.gguf", "llama", config_of("llama"), quantization=quantization)
    check_against_transformers(path, tmp_path)


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_config_and_weights_of_every_architecture(kind, tmp_path):
    more = experts(kind) if kind.endswith("moe") else {}
    values = {"tokenizer.ggml.padding_token_id": 0} if kind == "phi3" else {}
    path = write(tmp_path / f"{kind}.gguf", kind, config_of(kind), more=more, values=values)
    check_against_transformers(path, tmp_path)
    model = inspect_folder(tmp_path).load()
    assert model.outputs == "next token"
    assert len(model.layers("bag of cats")) == LAYERS


def check_against_transformers(path, folder):
    write_folder(path, folder)
    theirs = load_gguf_checkpoint(str(path))["config"]
    config = transformers.AutoConfig.from_pretrained(folder)
    expected = transformers.AutoConfig.for_model(**theirs)
    ours, expected_values = config.to_dict(), expected.to_dict()
    for values in (ours, expected_values):
        values.pop("architectures")
        values.pop("_name_or_path", None)
        values.pop("_model_name_or_path", None)
        values.pop("n_ctx", None)  # of GPT-2, which nothing reads
    assert ours == expected_values
    model = transformers.AutoModelForCausalLM.from_config(expected)
    state = load_gguf_checkpoint(str(path), return_tensors=True, model_to_load=model)["tensors"]
    weights = load_file(folder / "model.safetensors")
    assert weights.keys() == state.keys()
    assert all(torch.equal(weights[name], state[name]) for name in state)


def test_names_of_weights_are_those_of_transformers(llama):
    config = transformers.AutoConfig.for_model(**load_gguf_checkpoint(str(llama))["config"])
    for kind, architecture in ((transformers.LlamaForCausalLM, "llama"), (transformers.LlamaModel, "llama")):
        with torch.device("meta"):
            model = kind(config)
        processor = TENSOR_PROCESSORS["llama"](config=config.to_dict())
        expected = get_gguf_hf_weights_map(model, processor)
        assert weight_names(model, processor, architecture) == expected


def test_progress_goes_from_the_first_tensor_to_the_last(llama):
    calls = []
    model = convert(llama, lambda done, size: calls.append((done, size)))
    assert not calls
    names = [name for name, _numbers in model.weights]
    assert len(names) == len(set(names)) == 3 + 9 * LAYERS
    assert [done for done, _size in calls] == sorted(done for done, _size in calls)
    assert calls[-1][0] == calls[-1][1]


def test_the_size_of_a_head_that_transformers_does_not_read(tmp_path):
    values = {"qwen3.attention.key_length": 16}
    model = load(write(tmp_path / "a.gguf", "qwen3", config_of("qwen3", head_dim=16), values=values))
    assert model.layers("bag")[0].inputs.query.shape[-1] == 16


def test_positions_scaled_by_factors_as_in_llama_3(tmp_path):
    scaling = {"rope_type": "llama3", "rope_theta": 10_000.0, "factor": 32.0, "low_freq_factor": 1.0}
    scaling |= {"high_freq_factor": 4.0, "original_max_position_embeddings": 64}
    config = config_of("llama", rope_parameters=scaling)
    expected = transformers.LlamaModel(config).rotary_emb.inv_freq
    plain = transformers.LlamaModel(config_of("llama")).rotary_emb.inv_freq
    more = {"rope_freqs.weight": (plain / expected).numpy()}
    rotary = load(write(tmp_path / "a.gguf", "llama", config_of("llama"), more=more)).model.model.rotary_emb
    torch.testing.assert_close(rotary.inv_freq, expected)
    assert rotary.attention_scaling == 1.0
    assert not torch.allclose(plain, expected)


def test_positions_scaled_evenly(tmp_path):
    values = {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0}
    rotary = load(write(tmp_path / "a.gguf", "llama", config_of("llama"), values=values)).model.model.rotary_emb
    plain = transformers.LlamaModel(config_of("llama")).rotary_emb
    torch.testing.assert_close(rotary.inv_freq, plain.inv_freq / 4)


def test_positions_of_gemma_3_are_scaled_where_all_tokens_are_seen(tmp_path):
    values = {"gemma3.rope.scaling.type": "linear", "gemma3.rope.scaling.factor": 8.0}
    config = load(write(tmp_path / "a.gguf", "gemma3", config_of("gemma3"), values=values)).model.config
    factors = {kind: rope.get("factor") for kind, rope in config.rope_parameters.items()}
    assert factors == {"full_attention": 8.0, "sliding_attention": None}


@pytest.mark.parametrize("tokenizer", [byte_level, sentence_pieces])
def test_tokens_are_those_that_transformers_reads(tmp_path, tokenizer):
    path = write(tmp_path / "a.gguf", "llama", config_of("llama"), tokenizer=tokenizer)
    model = load(path)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path, gguf_file=path.name)
    for text in ("bag of cats", " bag  bag", "é\n", "<s>bag</s>"):
        assert model.encode(text).batch["input_ids"][0].tolist() == theirs(text)["input_ids"], text


def test_an_architecture_that_is_not_read(tmp_path):
    path = write(tmp_path / "a.gguf", "mamba", transformers.MambaConfig(hidden_size=64, num_hidden_layers=1))
    with pytest.raises(ValueError, match=r"architecture “mamba”, which is not read from GGUF here.*these: llama, q"):
        load(path)


def test_a_model_is_loaded_by_its_file_its_folder_or_any_other_name(llama, tmp_path, monkeypatch):
    model = load(llama)
    assert model.name == "llama"
    assert isinstance(model.tokenizer, TokenizerProcess)
    assert model.has_chat_template
    assert load(str(llama)) is model
    monkeypatch.chdir(llama.parent)
    assert load("llama.gguf") is model
    assert load(llama.parent).name == "llama"
    (tmp_path / "sha256-0").write_bytes(llama.read_bytes())  # as Ollama names them
    assert load(tmp_path / "sha256-0").name == "sha256-0"
    assert len([*(tmp_path / "cache" / "models").glob("*/model.safetensors")]) == 1


def test_a_folder_of_several_files(llama, tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.gguf").write_bytes(llama.read_bytes())
    with pytest.raises(ValueError, match=r"holds 2 GGUF files. Give the path of the file itself, such as “.*/a\.gguf”"):
        load(tmp_path)


def test_a_hosted_instance_opens_no_file(llama, monkeypatch):
    monkeypatch.setenv("ATTNVIZ_HOSTED", "1")
    with pytest.raises(ValueError, match="shows only the models that its owner lists"):
        load(llama)


def test_without_a_cache_folder_a_trusted_file_is_built_in_memory(llama, tmp_path, monkeypatch):
    kept, calls = inspect_gguf(llama, "llama", "0" * 64, trusted=True).load(), []
    (tmp_path / "file").touch()
    monkeypatch.setenv("ATTNVIZ_CACHE", str(tmp_path / "file"))
    model = inspect_gguf(llama, "llama", "0" * 64, lambda *done: calls.append(done), trusted=True).load()
    [note] = model.notes
    assert "cannot be kept in the cache folder" in note
    assert "set ATTNVIZ_CACHE to a folder that can be written" in note
    assert calls == sorted(calls)
    assert calls[-1][0] == calls[-1][1]
    text = "bag cab"
    assert model.encode(text).source == kept.encode(text).source
    assert torch.equal(model.output(model.encode(text)), kept.output(kept.encode(text)))
    assert model.tokenizer.chat_template == kept.tokenizer.chat_template


def test_a_full_disk_leaves_no_file(llama, tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(1, 1, 0))
    model = inspect_gguf(llama, "llama", "0" * 64, trusted=True)
    assert "No space left on device" in model.notes[0]
    with pytest.raises(ValueError, match=r"cannot be converted.*No space left on device.*set ATTNVIZ_CACHE"):
        inspect_gguf(llama, "llama", "0" * 64)
    assert [path.suffix for path in (tmp_path / "cache" / "models").iterdir()] == [".lock"]


def test_without_a_cache_folder_a_foreign_file_is_refused(llama, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("ATTNVIZ_CACHE", str(tmp_path / "file"))
    with pytest.raises(
        ValueError, match=r"cannot be converted, because the cache folder cannot be written.*ATTNVIZ_CACHE"
    ):
        load(llama)
