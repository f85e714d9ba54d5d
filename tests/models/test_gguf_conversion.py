"""GGUF files as models of transformers, compared with transformers' own reading of the same files."""

import shutil
from dataclasses import replace
from itertools import cycle

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file
from transformers import PreTrainedTokenizerFast
from transformers.modeling_gguf_pytorch_utils import (
    TENSOR_PROCESSORS,
    TensorProcessor,
    get_gguf_hf_weights_map,
    load_gguf_checkpoint,
)

from attnviz.models import config_trial, gguf_model, gguf_weights, load
from attnviz.models.config import build
from attnviz.models.gguf_conversion import planned_conversion
from attnviz.models.gguf_file import read_gguf, tensor_rows
from attnviz.models.gguf_keys import ARCHITECTURES
from attnviz.models.gguf_model import inspect_gguf
from attnviz.models.gguf_weights import placed_weights, weight_names
from attnviz.models.loading import inspect_folder
from attnviz.models.tokenizer_process import TokenizerProcess
from attnviz.trace import Trace
from tests.support.gguf_files import LAYERS, PIECES, byte_level, config_of, sentence_pieces, write


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    """A cache folder of the test's own."""
    monkeypatch.setenv("ATTNVIZ_CACHE", str(tmp_path / "cache"))


IN_THIS_PROCESS = pytest.mark.usefixtures("in_this_process")


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    """A small Llama in a GGUF file."""
    return write(tmp_path_factory.mktemp("gguf") / "llama.gguf", "llama", config_of("llama"))


TYPES = ("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1")


@IN_THIS_PROCESS
@pytest.mark.parametrize(("kind", "quantization"), zip(ARCHITECTURES, cycle(TYPES), strict=False))
def test_config_and_weights_of_every_architecture_and_type(kind, quantization, tmp_path):
    assert len(ARCHITECTURES) >= len(TYPES)
    path = write(tmp_path / f"{kind}.gguf", kind, config_of(kind), quantization=quantization)
    check_against_transformers(path, tmp_path)
    model = inspect_folder(tmp_path).load()
    assert model.outputs == "next token"
    assert len(model.layers("bag of cats")) == LAYERS


def check_against_transformers(path, folder):
    """The config that was written, and the weights of the file as transformers reads them into it."""
    planned_conversion(path).write(folder)
    config = transformers.AutoConfig.from_pretrained(folder)
    ours, expected = (one.to_dict() for one in (config, config_of(path.stem)))
    for values in (ours, expected):
        for name in ("architectures", "_name_or_path", "gguf_type", "dtype"):
            values.pop(name, None)
    for name in ("intermediate_size", "max_position_embeddings", "num_key_value_heads"):
        if name not in ours:  # which some configs keep, and no model reads
            expected.pop(name, None)
    assert in_32_bits(ours) == in_32_bits(expected)
    model = transformers.AutoModelForCausalLM.from_config(config)
    state = load_gguf_checkpoint(str(path), return_tensors=True, model_to_load=model)["tensors"]
    weights = load_file(folder / "model.safetensors")
    assert weights.keys() == state.keys()
    assert all(torch.equal(weights[name], state[name]) for name in state)


def in_32_bits(value):
    """A config with its real numbers as a file says them."""
    if isinstance(value, dict):
        return {key: in_32_bits(part) for key, part in value.items()}
    return float(np.float32(value)) if isinstance(value, float) else value


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_names_of_weights_are_those_of_transformers(kind):
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config_of(kind))
    processor = TENSOR_PROCESSORS.get(kind, TensorProcessor)(config=model.config.to_dict())
    expected = get_gguf_hf_weights_map(model, processor)
    for name in [name for name in expected if name.endswith("_exps")]:  # which it completes later
        expected[f"{name}.weight"] = expected.pop(name)
    assert weight_names(model, kind) == expected


def test_progress_goes_from_the_first_tensor_to_the_last(llama, tmp_path):
    calls = []
    conversion = planned_conversion(llama)
    conversion.write(tmp_path, lambda done, size: calls.append((done, size)))
    assert len(conversion.weights) == 3 + 9 * LAYERS
    assert [done for done, _size in calls] == sorted(done for done, _size in calls)
    assert calls[-1][0] == calls[-1][1]


@IN_THIS_PROCESS
def test_the_size_of_a_head_that_transformers_does_not_read(tmp_path):
    values = {"qwen3.attention.key_length": 16}
    model = load(write(tmp_path / "a.gguf", "qwen3", config_of("qwen3", head_dim=16), values=values))
    assert model.layers("bag")[0].inputs.query.shape[-1] == 16


@IN_THIS_PROCESS
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


@IN_THIS_PROCESS
def test_positions_scaled_evenly(tmp_path):
    values = {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0}
    rotary = load(write(tmp_path / "a.gguf", "llama", config_of("llama"), values=values)).model.model.rotary_emb
    plain = transformers.LlamaModel(config_of("llama")).rotary_emb
    torch.testing.assert_close(rotary.inv_freq, plain.inv_freq / 4)


@IN_THIS_PROCESS
def test_positions_of_gemma_3_are_scaled_where_all_tokens_are_seen(tmp_path):
    values = {"gemma3.rope.scaling.type": "linear", "gemma3.rope.scaling.factor": 8.0}
    config = load(write(tmp_path / "a.gguf", "gemma3", config_of("gemma3"), values=values)).model.config
    factors = {kind: rope.get("factor") for kind, rope in config.rope_parameters.items()}
    assert factors == {"full_attention": 8.0, "sliding_attention": None}


def tensors_of(path):
    """The tensors of a file by their names."""
    return {
        one.name: tensor_rows(path, one, 0, one.rows).reshape(one.shape)
        for one in sorted(read_gguf(path).tensors, key=lambda one: one.name)
    }


PARTS = ("gate", "up", "down")
SHAPES = {  # of experts, each of another kind than (4, 48, 64)
    "one expert": lambda numbers: numbers[:1],
    "one row": lambda numbers: numbers[:, :1],
    "a row of numbers": lambda numbers: numbers[0, 0],
    "a matrix": lambda numbers: numbers[0],
    "twice the rows": lambda numbers: np.concatenate([numbers, numbers], 1),
}


@IN_THIS_PROCESS
@pytest.mark.parametrize("kind", ["qwen2moe", "qwen3moe"])
@pytest.mark.parametrize("part", PARTS)
def test_a_layer_without_a_part_of_its_experts_is_refused(kind, part, tmp_path):
    name = f"blk.1.ffn_{part}_exps.weight"
    path = write(tmp_path / "a.gguf", kind, config_of(kind), more={name: None})
    with pytest.raises(
        ValueError, match=rf"lacks the tensor “{name}”, without which a part of the model would be rand"
    ):
        planned_conversion(path)


@IN_THIS_PROCESS
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("change", SHAPES.values(), ids=SHAPES)
def test_experts_of_another_shape_are_refused(part, change, tmp_path):
    name, config = f"blk.0.ffn_{part}_exps.weight", config_of("qwen3moe")
    numbers = tensors_of(write(tmp_path / "a.gguf", "qwen3moe", config))[name]
    path = write(tmp_path / "b.gguf", "qwen3moe", config, more={name: np.ascontiguousarray(change(numbers))})
    with pytest.raises(ValueError, match=f"has the tensor “{name}”, but the config needs one of another shape"):
        planned_conversion(path)


@IN_THIS_PROCESS
@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_a_file_that_lacks_any_tensor_is_refused(kind, tmp_path):
    conversion = planned_conversion(write(tmp_path / "a.gguf", kind, config_of(kind)))
    config = conversion.head.config
    model = build("a", config, 100)[-1]
    for lacking in conversion.head.tensors:
        rest = tuple(tensor for tensor in conversion.head.tensors if tensor is not lacking)
        with pytest.raises(ValueError, match=f"lacks the tensor “{lacking.name}”"):
            placed_weights(replace(conversion.head, tensors=rest), model)


def test_numbers_come_in_parts(llama, tmp_path, monkeypatch):
    whole = [np.concatenate([part.ravel() for part in weight.parts()]) for weight in planned_conversion(llama).weights]
    monkeypatch.setattr(gguf_weights, "MOST_AT_ONCE", 300)
    for weight, expected in zip(planned_conversion(llama).weights, whole, strict=True):
        parts = [*weight.parts()]
        assert max(part.size for part in parts) <= max(300, weight.rows * weight.shape[-1])
        assert np.array_equal(np.concatenate([part.ravel() for part in parts]), expected)


def test_a_tensor_without_a_place_is_refused_before_its_numbers_are_read(tmp_path, monkeypatch):
    more = {"blk.7.attn_q.weight": np.zeros((64, 64), np.float32)}
    path = write(tmp_path / "a.gguf", "llama", config_of("llama"), more=more)
    monkeypatch.setattr(gguf_weights, "tensor_rows", None)
    with pytest.raises(ValueError, match=r"has the tensor “blk.7.attn_q.weight”, but transformers has no place"):
        planned_conversion(path)


def test_a_refused_file_is_not_read_whole(tmp_path, monkeypatch):
    path = write(tmp_path / "a.gguf", "llama", config_of("llama"), values={"llama.logit_scale": 2.0})
    monkeypatch.setattr(gguf_model, "_digest", None)
    with pytest.raises(ValueError, match="logit_scale"):
        load(path)


@IN_THIS_PROCESS
def test_a_context_of_any_length_is_not_tried_out(tmp_path, monkeypatch):
    monkeypatch.setattr(config_trial, "_run_trial", None)
    for kind in ARCHITECTURES:
        config = config_of(kind) if kind == "gpt2" else config_of(kind, max_position_embeddings=1 << 25)
        path = write(tmp_path / "a.gguf", kind, config, values={"bloom.context_length": 1 << 23})
        assert planned_conversion(path).weights


@IN_THIS_PROCESS
@pytest.mark.parametrize(("kind", "prefixed"), [("llama", False), ("llama", True), ("phi3", False), ("gemma3", True)])
def test_a_space_before_a_text_is_put_where_the_file_says_it(kind, prefixed, tmp_path):
    def tokenizer(writer):
        sentence_pieces(writer)
        writer.add_add_space_prefix(prefixed)

    config = config_of(kind, vocab_size=len(PIECES))
    model = load(write(tmp_path / "a.gguf", kind, config, tokenizer=tokenizer))
    first, *shown = (PIECES[id] for id in model.encode("bag ba").batch["input_ids"][0])
    assert first == "<s>"
    assert shown == (["▁bag"] if prefixed else ["bag"]) + ["▁", "ba"]
    ids = [PIECES.index(piece) for piece in shown]
    assert (
        PreTrainedTokenizerFast(tokenizer_file=str(model_folder(tmp_path) / "tokenizer.json")).decode(ids) == "bag ba"
    )


def model_folder(tmp_path):
    """The only folder of a converted model."""
    [folder] = (tmp_path / "cache" / "models").glob("*/tokenizer.json")
    return folder.parent


@IN_THIS_PROCESS
def test_texts_begin_with_their_token_as_in_llama_3(tmp_path):
    def tokenizer(writer):
        byte_level(writer)
        writer.kv_data[0]["tokenizer.ggml.pre"].value = "llama-bpe"

    model = load(write(tmp_path / "a.gguf", "llama", config_of("llama"), tokenizer=tokenizer))
    assert model.encode("bag").batch["input_ids"][0].tolist()[0] == 0
    assert '"ignore_merges":true' in (model_folder(tmp_path) / "tokenizer.json").read_text()


@IN_THIS_PROCESS
@pytest.mark.parametrize("quantization", ["Q4_1", "Q8_0", "F16"])
def test_the_precision_of_weights_is_said(quantization, tmp_path):
    model = load(write(tmp_path / "a.gguf", "llama", config_of("llama"), quantization=quantization))
    bits = {"Q4_1": 4, "Q8_0": 8}.get(quantization)
    assert model.precision == (f"{bits}-bit, from a GGUF file" if bits else "")
    assert len(model.notes) == bool(bits)
    model.save_trace(tmp_path / "trace", "bag")
    assert Trace.load(tmp_path / "trace").model == (f"a ({bits}-bit, from a GGUF file)" if bits else "a")


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
    assert "No space left on device" in model.notes[0]()
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
