"""Shares against differences: each writer is changed in a copy of the model that hooks keep as it was in one run."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, BertConfig, BertModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from attnviz.attribution import Activation, Attribution, LogitDifference, Score, attribute
from tests.support.architectures import SMALL
from tests.support.seeded_models import HEADS, IDS, OTHER, SEEDED, TOKEN, seeded_model

PARTS = {  # the ends of the paths of: the map that reads the heads, the MLP, embeddings
    "GPT-2": (".attn.c_proj", ".mlp", (".wte", ".wpe")),
    "Llama": (".self_attn.o_proj", ".mlp", (".embed_tokens",)),
    "Pythia": (".attention.dense", ".mlp", (".embed_in",)),
    "BERT": (".attention.output.dense", ".output.dense", ("_embeddings",)),
}


class FrozenModel:
    """A copy of a model whose norms keep the scales of one run, and whose writers write what they wrote there, each
    times a factor, which is 1 at first."""

    def __init__(self, model: nn.Module, projection: str, mlp: str, embeddings: tuple[str, ...]) -> None:
        self.model, self.factors, self.attended = copy.deepcopy(model), {}, []
        self.heads: list[nn.Module] = []
        self.mlps: list[nn.Module] = []
        self.embeddings: list[nn.Module] = []
        self._recorded: dict[nn.Module, Tensor] = {}
        AttentionInterface.register("noted", self._attend)
        AttentionMaskInterface.register("noted", sdpa_mask)
        self.model.set_attn_implementation("noted")
        for name, module in self.model.named_modules():
            if "Norm" in type(module).__name__:
                module.register_forward_hook(self._normalize)
            elif name.endswith(projection):
                self.heads.append(module)
                module.register_forward_pre_hook(self._read_heads)
            elif name.endswith(mlp):
                self.mlps.append(module)
                module.register_forward_hook(self._write)
            elif name.endswith(embeddings):
                self.embeddings.append(module)
                module.register_forward_hook(self._write)
        self.run()
        self.factors = {module: torch.ones(IDS.shape[1], HEADS) for module in self._recorded}

    @torch.no_grad()
    def run(self) -> Any:
        self.attended.clear()
        return self.model(input_ids=IDS, output_hidden_states=True)

    def _attend(self, module: nn.Module, query: Tensor, key: Tensor, *args: Any, **options: Any) -> Any:
        self.attended.append((query[0], key[0], options["scaling"]))
        return sdpa_attention_forward(module, query, key, *args, **options)

    def _normalize(self, module: nn.Module, args: tuple[Tensor], output: Tensor) -> Tensor:
        has_mean = isinstance(module, nn.LayerNorm)
        centered = args[0] - args[0].mean(-1, keepdim=True) if has_mean else args[0]
        eps = module.eps if has_mean else module.variance_epsilon
        scale = self._recorded.setdefault(module, (centered.square().mean(-1, keepdim=True) + eps).rsqrt())
        return centered * scale * module.weight + (module.bias if has_mean else 0)

    def _read_heads(self, module: nn.Module, args: tuple[Tensor]) -> Tensor:
        heads = self._recorded.setdefault(module, args[0]).unflatten(-1, (HEADS, -1))
        return (heads * self.factors.get(module, torch.ones(1, 1))[..., None]).flatten(-2)

    def _write(self, module: nn.Module, args: tuple[Tensor], output: Tensor) -> Tensor:
        return self._recorded.setdefault(module, output) * self.factors.get(module, torch.ones(1, 1))[:, :1]

    def differences(self, number: Any, modules: list[nn.Module], heads: slice) -> Tensor:
        """How much a number grows if what modules write at a position, or one of their heads, is doubled: (positions,
        heads)."""
        before, grown = number(), torch.zeros(IDS.shape[1], HEADS)
        for position, head in torch.cartesian_prod(torch.arange(IDS.shape[1]), torch.arange(HEADS)[heads]):
            for module in modules:
                self.factors[module][position, head] = 2
            grown[position, head] = number() - before
            for module in modules:
                self.factors[module][position, head] = 1
        return grown[:, heads]


def check_shares(frozen: FrozenModel, found: Attribution, number: Any) -> None:
    for shares, module in zip(found.heads, frozen.heads, strict=True):
        expected = frozen.differences(number, [module], slice(0, HEADS))
        torch.testing.assert_close(shares.T.float(), expected, atol=3e-5, rtol=1e-4)
    for shares, module in zip(found.mlps, frozen.mlps, strict=True):
        expected = frozen.differences(number, [module], slice(0, 1))[:, 0]
        torch.testing.assert_close(shares.float(), expected, atol=3e-5, rtol=1e-4)
    expected = frozen.differences(number, frozen.embeddings, slice(0, 1))[:, 0]
    torch.testing.assert_close(found.embeddings.float(), expected, atol=3e-5, rtol=1e-4)
    for factors in frozen.factors.values():
        factors.zero_()
    assert number() == pytest.approx(found.constant, abs=3e-5)
    check_constants(frozen, found, number)


@torch.no_grad()
def check_constants(frozen: FrozenModel, found: Attribution, number: Any) -> None:
    assert sum(found.constant_parts.values()) == pytest.approx(found.constant, abs=3e-5)
    for path, share in found.constant_parts.items():
        bias, before = frozen.model.get_submodule(path).bias, number()
        kept = bias.clone()
        bias.zero_()
        assert before - number() == pytest.approx(share, abs=3e-5)
        bias.copy_(kept)


@pytest.mark.parametrize("name", SEEDED)
def test_shares_of_a_logit_are_differences_of_the_frozen_model(name: str) -> None:
    model = seeded_model(name)
    frozen, found = (
        FrozenModel(model, *PARTS[name]),
        attribute(model, {"input_ids": IDS}, LogitDifference(TOKEN, OTHER)),
    )

    def number() -> float:
        logits = frozen.run().logits[0, -1]
        return float(logits[TOKEN] - logits[OTHER])

    assert number() == pytest.approx(found.total, abs=3e-5)
    check_shares(frozen, found, number)


@pytest.mark.parametrize("side", ["key", "query"])
@pytest.mark.parametrize("name", SEEDED)
def test_shares_of_a_score_are_differences_of_the_frozen_model(name: str, side) -> None:
    model, (layer, head, query, key, over) = seeded_model(name), (2, 3, 6, 4, 1)
    found = attribute(model, {"input_ids": IDS}, Score(layer, head, query, key, over, side))
    frozen = FrozenModel(model, *PARTS[name])
    held = [tensor.clone() for tensor in frozen.attended[layer][:2]]

    def number() -> float:
        frozen.run()
        queries, keys, scaling = frozen.attended[layer]
        queries, keys = (held[0], keys) if side == "key" else (queries, held[1])
        keys = keys.repeat_interleave(HEADS // len(keys), 0)
        return float(queries[head, query] @ (keys[head, key] - keys[head, over]) * scaling)

    check_shares(frozen, found, number)


def test_shares_with_norms_after_each_sum_are_such_differences() -> None:
    torch.manual_seed(0)
    model = BertModel(BertConfig(**SMALL, initializer_range=0.3)).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, 0.2, 0.3)
    direction = torch.randn(32)
    found = attribute(model, {"input_ids": IDS, "output_hidden_states": True}, Activation(2, 5, direction))
    frozen = FrozenModel(model, *PARTS["BERT"])
    check_shares(frozen, found, lambda: float(frozen.run().hidden_states[2][0, 5] @ direction))
