"""Models in half precision give the numbers of their copies in float32, and are not copied."""

import copy
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.utils import ModelOutput

from attnviz.attribution import LogitDifference, attribute, in_float32
from attnviz.attribution.float32_weights import Float32Weight
from attnviz.effects import ablations, head_circuits
from attnviz.effects.linear_maps import linear_maps
from tests.support.architectures import GROUPED, ZOO
from tests.support.output_projections import TINY, tiny
from tests.support.torch_architectures import TORCH_ZOO

FAMILIES = {
    *("BERT", "DeBERTa-v2", "GPT-2", "GPT-NeoX", "BLOOM", "Falcon", "Llama", "Phi-3", "Gemma 2", "Mixtral", "gpt-oss"),
    *("DeepSeek-V3", "Jamba", "T5", "BART", "Whisper", "wav2vec 2.0", "ViT", "Swin", "LLaVA", "ViT and GPT-2"),
    *("MultiheadAttention", "TransformerEncoder", "TransformerDecoder", "Transformer"),
}
GIVEN: dict[str, Callable[[], tuple[nn.Module, tuple, dict]]] = {
    **{one.name: lambda one=one: (one.model(), (), one.given()) for one in ZOO if one.name in FAMILIES},
    **{one.name: lambda one=one: (one.model(), one.args(), one.kwargs()) for one in TORCH_ZOO if one.name in FAMILIES},
}
NUMBER = LogitDifference(5, 7)


def numbers(output: Any) -> list[torch.Tensor]:
    leaves = tree_leaves(dict(output) if isinstance(output, ModelOutput) else output)
    return [one for one in leaves if isinstance(one, torch.Tensor) and one.is_floating_point()]


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16], ids=["bfloat16", "float16"])
@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_outputs_and_gradients_are_those_of_a_copy_in_float32(name: str, half: torch.dtype) -> None:
    model, args, kwargs = GIVEN[name]()
    model, found = model.to(half), []
    for one in (copy.deepcopy(model).float(), in_float32(model)):
        with torch.no_grad():
            run = numbers(one(*args, **kwargs))
        run += (outputs := numbers(one(*args, **kwargs)))
        total = torch.stack([output.square().mean() for output in outputs if output.requires_grad]).sum()
        weights = [weight for weight in one.parameters() if weight.requires_grad]
        found.append([*run, *torch.autograd.grad(total, weights, materialize_grads=True)])
    assert {type(one) for one in found[1]} == {torch.Tensor}
    torch.testing.assert_close(found[1], found[0], rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("name", ["GPT-2", "Llama", "Gemma 2", "Mixtral", "T5"])
def test_sums_effects_and_circuits_are_those_of_a_copy_in_float32(name: str) -> None:
    half, batch = copy.deepcopy(tiny(name)).bfloat16(), TINY[name].batch()
    one = {key: ids[:, :1] for key, ids in batch.items()}
    found = []
    for model in (copy.deepcopy(half).float(), half):
        maps = linear_maps(model, one)
        assert type(maps.embedding) is torch.Tensor
        found.append([attribute(model, batch, NUMBER).heads, ablations(model, batch, NUMBER)])
        found[-1] += [head_circuits(model, one).copying, maps.logits(maps.embedding[:5])]
        found[-1] += [] if TINY[name].is_decoded else [maps.after_first_layer()]
    torch.testing.assert_close(found[1], found[0], rtol=0, atol=0, equal_nan=True)


class LiveBytes(TorchDispatchMode):
    """Counts the bytes of the tensors that functions make, while they live."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(isinstance(one, Float32Weight) for one in tree_leaves((args, kwargs))):
            with self:
                return Float32Weight.__torch_dispatch__(function, types, args, kwargs)
        result = function(*args, **(kwargs or {}))
        if not function.is_view and not function._schema.is_mutable:
            for one in tree_leaves(result):
                if isinstance(one, torch.Tensor):
                    self.add(one.nbytes)
                    weakref.finalize(one, partial(self.add, -one.nbytes))
        return result

    def add(self, count: int) -> None:
        self.now += count
        self.peak = max(self.peak, self.now)


def test_one_weight_at_a_time_is_converted_and_none_is_kept() -> None:
    wider = {"hidden_size": 128, "intermediate_size": 512, "num_hidden_layers": 6}
    model = LlamaForCausalLM(LlamaConfig(**GROUPED | wider)).eval().bfloat16()
    whole = 4 * model.num_parameters()
    for compute in (attribute, ablations):
        with LiveBytes() as live:
            compute(model, {"input_ids": torch.tensor([[5, 9, 11]])}, NUMBER)
        assert 4 * wider["hidden_size"] * wider["intermediate_size"] < live.peak < whole / 4


def test_weights_are_those_of_the_model_itself() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3)).bfloat16()
    model[1].bias.requires_grad_(False)
    exact = in_float32(model)
    assert in_float32(exact) is exact
    assert isinstance(exact[0].weight, nn.Parameter)
    assert [one.requires_grad for one in exact.parameters()] == [True, True, True, False]
    assert [one.dtype for one in exact.parameters()] == [torch.float32] * 4
    for own, read in zip(model.parameters(), exact.parameters(), strict=True):
        assert read.stored.data_ptr() == own.data_ptr()
    assert "bfloat16" in repr(exact[0].weight)


def test_a_product_of_two_weights_is_computed_of_both() -> None:
    model = nn.Bilinear(6, 6, 6).bfloat16()
    model.other = nn.Parameter(torch.randn(6, 6, dtype=torch.bfloat16))
    exact = in_float32(model)
    products = exact.other @ exact.other.T, torch.baddbmm(exact.weight, exact.weight, exact.weight)
    other, weight = model.other.float(), model.weight.float()
    torch.testing.assert_close(products, (other @ other.T, torch.baddbmm(weight, weight, weight)))


def test_a_weight_that_is_changed_is_refused() -> None:
    exact = in_float32(nn.Embedding(5, 4, max_norm=0.1).bfloat16())
    with pytest.raises(ValueError, match="changes its own weights"):
        exact(torch.tensor([1, 2]))


def test_it_runs_in_inference_mode_and_takes_gradients_later() -> None:
    model, _args, kwargs = GIVEN["ViT"]()
    with torch.inference_mode():
        exact = in_float32(model.bfloat16())
        first = exact(**kwargs)[0].clone()
    later = exact(**kwargs)[0]
    torch.testing.assert_close(later, first)
    assert torch.autograd.grad(later.sum(), exact.embeddings.cls_token)[0].any()


def test_what_torch_jit_compiles_is_copied() -> None:
    model = nn.Sequential(torch.jit.script(nn.Linear(4, 4)), nn.Linear(4, 3)).bfloat16()
    exact, states = in_float32(model), torch.randn(2, 4)
    assert not any(isinstance(one, Float32Weight) for one in exact.parameters())
    assert model[1].weight.dtype == torch.bfloat16
    torch.testing.assert_close(exact(states), model.float()(states))
