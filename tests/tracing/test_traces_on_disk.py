"""Captures that are written while the model runs: one layer in memory, and no n × n numbers."""

import gc
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from attnviz import Trace, capture
from attnviz.layer import Fidelity
from attnviz.masks import Causal, Full
from attnviz.trace import TraceWriter
from attnviz.trace.mapped_inputs import MappedInputs
from tests.support.architectures import GROUPED, SMALL

LONG = 4_096


class Largest(TorchDispatchMode):
    """The number of elements of the largest tensor that any operation makes."""

    def __init__(self) -> None:
        super().__init__()
        self.size = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        self.size = max([self.size, *(one.numel() for one in tree_leaves(result) if isinstance(one, Tensor))])
        return result


def llama(**more: Any) -> hf.LlamaModel:
    config = hf.LlamaConfig(**GROUPED | {"max_position_embeddings": LONG, "use_cache": False} | more)
    return hf.LlamaModel(config).eval()


def bert() -> hf.BertModel:
    return hf.BertModel(hf.BertConfig(**SMALL | {"max_position_embeddings": LONG})).eval()


@pytest.mark.parametrize(("make", "mask"), [(llama, Causal()), (bert, Full())], ids=["decoder", "encoder"])
def test_a_long_text_is_captured_without_a_whole_map(make: Any, mask: object, tmp_path: Path) -> None:
    ids = torch.randint(3, 90, (1, LONG))
    with Largest() as largest:
        trace = capture(make(), {"input_ids": ids, "attention_mask": torch.ones_like(ids)}, folder=tmp_path)
    assert largest.size < LONG * LONG / 8
    assert [layer.fidelity for layer in trace] == [Fidelity.VERIFIED] * 2
    assert [layer.mechanism.mask for layer in Trace.load(tmp_path)] == [mask] * 2


def test_what_is_written_is_what_is_captured(tmp_path: Path) -> None:
    model, ids = llama(), torch.randint(3, 90, (1, 12))
    in_memory, written = capture(model, ids), capture(model, ids, folder=tmp_path)
    loaded = Trace.load(tmp_path)
    assert repr(loaded) == repr(written) == repr(in_memory)
    assert loaded.model == "LlamaModel"
    for one, other, third in zip(in_memory, written, loaded, strict=True):
        assert isinstance(other.inputs, MappedInputs)
        assert torch.equal(one.inputs.query, other.inputs.query)
        assert torch.equal(one.mechanism(one.inputs).weights, third.mechanism(third.inputs).weights)
        assert one.comparison == third.comparison


def test_no_more_than_one_layer_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[Any] = []
    add = TraceWriter.add

    def watched(writer: TraceWriter, layer: Any) -> Any:
        gc.collect()
        assert not [one for one in held if one() is not None]
        held.append(weakref.ref(layer))
        return add(writer, layer)

    monkeypatch.setattr(TraceWriter, "add", watched)
    gc.freeze()  # what was there before is not looked at for each layer
    try:
        capture(llama(num_hidden_layers=4), torch.randint(3, 90, (1, 12)), folder=tmp_path)
    finally:
        gc.unfreeze()
    assert len(held) == 4


def test_some_layers_are_kept(tmp_path: Path) -> None:
    trace = capture(llama(num_hidden_layers=4), torch.randint(3, 90, (1, 12)), folder=tmp_path, layers=[1, 3, 7])
    assert [layer.name for layer in trace] == ["layer 1", "layer 3"]
    assert trace.missing == ("Layer 7 is not shown: the model has 4, counted from 0.",)
    assert [layer.name for layer in Trace.load(tmp_path)] == ["layer 1", "layer 3"]
    assert len([*tmp_path.glob("*.safetensors")]) == 2


def test_half_precision_is_written_in_its_own_type(tmp_path: Path) -> None:
    capture(llama().bfloat16(), torch.randint(3, 90, (1, 12)), folder=tmp_path)
    for layer in Trace.load(tmp_path):
        assert {layer.inputs.query.dtype, layer.inputs.key.dtype, layer.inputs.value.dtype} == {torch.bfloat16}


def test_a_model_that_fails_in_the_middle_leaves_its_first_layers(tmp_path: Path) -> None:
    model = llama()

    def fail(*_: Any) -> None:
        raise RuntimeError("out of memory")

    model.layers[1].mlp.register_forward_hook(fail)
    with pytest.raises(RuntimeError, match="out of memory"):
        capture(model, torch.randint(3, 90, (1, 12)), folder=tmp_path)
    trace = Trace.load(tmp_path)
    assert [layer.name for layer in trace] == ["layer 0", "layer 1"]
    assert "not whole" in trace.missing[0]


class Odd(nn.Module):
    """Two attentions, of which one has a mask that is a function."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, states: Tensor) -> Tensor:
        output: Tensor = self.attention(states, states, states)[0]
        return output


def test_torch_modules_are_written_too(tmp_path: Path) -> None:
    [layer] = capture(Odd(), torch.randn(1, 5, 8), folder=tmp_path)
    assert layer.fidelity is Fidelity.VERIFIED
