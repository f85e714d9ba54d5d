"""Texts that are read in chunks: the trace is that of the whole text."""

from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from torch import nn

from attnviz import Trace, capture
from attnviz.layer import Fidelity
from tests.support.architectures import GROUPED, SMALL, ZOO
from tests.tracing.test_traces_on_disk import Largest

TOKENS = 61
WINDOW = {"sliding_window": 9}
GEMMA = GROUPED | {"head_dim": 8, "query_pre_attn_scalar": 8, **WINDOW}
MODELS = {
    "llama": lambda: hf.LlamaModel(hf.LlamaConfig(**GROUPED)),
    "mistral": lambda: hf.MistralModel(hf.MistralConfig(**GROUPED, **WINDOW)),
    "gemma2": lambda: hf.Gemma2Model(hf.Gemma2Config(**GEMMA)),
    "gpt2": lambda: hf.GPT2Model(hf.GPT2Config(vocab_size=99, n_embd=32, n_layer=2, n_head=4)),
    "with a head": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**GROUPED)),
}


def model(name: str) -> Any:
    torch.manual_seed(0)
    return MODELS[name]().eval()


def ids(tokens: int = TOKENS) -> torch.Tensor:
    return torch.randint(3, 90, (1, tokens), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("name", "chunk"), [*product(MODELS, [7, 60]), *(("mistral", chunk) for chunk in (1, 20, 100))]
)
def test_the_trace_is_that_of_the_whole_text(name: str, chunk: int) -> None:
    whole, chunked = capture(model(name), ids()), capture(model(name), ids(), chunk=chunk)
    assert len(whole) == 2
    assert repr(chunked) == repr(whole)
    for one, other in zip(whole, chunked, strict=True):
        assert (other.fidelity, other.kind) == (Fidelity.VERIFIED, one.kind)
        assert str(other.mechanism) == str(one.mechanism)
        for vectors in ("query", "key", "value"):
            torch.testing.assert_close(getattr(other.inputs, vectors), getattr(one.inputs, vectors))
        assert other.inputs.query_ids == one.inputs.query_ids
        weights = [layer.mechanism(layer.inputs).weights for layer in (one, other)]
        torch.testing.assert_close(*weights)


def test_padding_is_masked_in_every_chunk() -> None:
    padding = torch.ones(1, TOKENS, dtype=torch.long)
    padding[0, -11:] = 0
    batch = {"input_ids": ids(), "attention_mask": padding}
    whole, chunked = capture(model("llama"), batch), capture(model("llama"), batch, chunk=8)
    assert len(chunked) == 2
    assert [layer.mechanism.mask for layer in chunked] == [layer.mechanism.mask for layer in whole]


def test_a_long_text_takes_the_memory_of_a_chunk(tmp_path: Path) -> None:
    long = hf.LlamaModel(
        hf.LlamaConfig(**GROUPED | {"max_position_embeddings": 4_096, "intermediate_size": 512})
    ).eval()
    with Largest() as largest:
        capture(long, ids(4_096), folder=tmp_path, chunk=256)
    assert largest.size <= 256 * 4_096  # rows of a chunk against all keys
    assert [layer.fidelity for layer in Trace.load(tmp_path)] == [Fidelity.VERIFIED] * 2
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "layer-0000.safetensors",
        "layer-0001.safetensors",
        "trace.json",
    ]


def test_some_layers_are_kept_in_their_own_type(tmp_path: Path) -> None:
    [layer] = capture(model("llama").bfloat16(), ids(), folder=tmp_path, layers=[1], chunk=20)
    assert (layer.name, layer.inputs.query.dtype) == ("layer 1", torch.bfloat16)


def test_a_layer_with_a_mask_of_its_own_is_missing() -> None:
    bloom = hf.BloomModel(hf.BloomConfig(vocab_size=99, hidden_size=32, n_layer=1, n_head=4)).eval()
    trace = capture(bloom, ids(), chunk=20)
    assert not trace
    assert "is not one that can be captured in chunks. Capture it whole." in trace.missing[0]


@pytest.mark.parametrize(
    ("make", "options", "sentence"),
    [
        (lambda: hf.BertModel(hf.BertConfig(**SMALL)), {}, "BertModel keeps no cache of what it has read. Capture the"),
        (lambda: nn.TransformerEncoderLayer(8, 2), {}, "give its token ids"),
        (lambda: MODELS["llama"](), {"chunk": 0}, "not read in chunks of 0 tokens"),
        (lambda: MODELS["llama"](), {"intervene": lambda *_: None}, "not read in chunks with intervene"),
    ],
    ids=["encoder", "vectors", "no tokens", "intervention"],
)
def test_what_has_no_chunks_is_said(make: Any, options: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    built = make()
    batch = torch.randn(1, 12, 8) if isinstance(built, nn.TransformerEncoderLayer) else ids(12)
    with pytest.raises(ValueError, match=sentence):
        capture(built, batch, **{"chunk": 4, "folder": tmp_path / "trace", **options})


def test_a_model_that_begins_anew_with_each_chunk_is_refused() -> None:
    jamba = next(one for one in ZOO if one.name == "Jamba").model()
    with pytest.raises(ValueError, match="JambaModel reads a text otherwise in chunks than at once"):
        capture(jamba, ids(), chunk=20)


def test_a_full_disk_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(type(tmp_path)):  # type: ignore[misc]
        def open(self, *_: Any, **__: Any) -> Any:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("attnviz.tracing.single_capture.Path", Full)
    with pytest.raises(ValueError, match=r"cannot be written: No space left on device. Make room first\."):
        capture(model("llama"), ids(), folder=tmp_path, chunk=20)
