"""What a sweep of changed runs costs: rows that pass through layers, counted."""

from collections.abc import Sequence

import pytest
import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

from attnviz.effects import LogitDifference, ablations
from attnviz.effects.ablation import Head
from tests.support.architectures import GROUPED
from tests.support.seeded_models import drawn

LAYERS, HEADS = 6, 4


@pytest.fixture(scope="module")
def model() -> nn.Module:
    sizes = GROUPED | {"num_hidden_layers": LAYERS, "max_position_embeddings": 2048}
    return drawn(LlamaForCausalLM(LlamaConfig(**sizes)))


def forwards(model: nn.Module, tokens: int, heads: Sequence[Head]) -> float:
    """The forward passes that ablations take: rows that layers read, of all layers."""
    rows = 0

    def count(layer: nn.Module, args: tuple[torch.Tensor], kwargs: dict) -> None:
        nonlocal rows
        rows += len(args[0] if args else kwargs["hidden_states"])

    hooks = [layer.self_attn.o_proj.register_forward_pre_hook(count, with_kwargs=True) for layer in model.model.layers]
    ids = torch.arange(tokens)[None] % 90
    effects = ablations(model, ids, LogitDifference(5, 7), how="zero", heads=heads)
    for hook in hooks:
        hook.remove()
    assert effects.isfinite().sum() == len(heads)
    return rows / LAYERS


EVERY = [(layer, head) for layer in range(LAYERS) for head in range(HEADS)]


@pytest.mark.parametrize("tokens", [14, 300, 1100])
@pytest.mark.parametrize(
    "heads",
    [EVERY[:1], EVERY[1:24:6], EVERY[-8:], EVERY],
    ids=lambda heads: f"{len(heads)} heads",
)
def test_it_is_never_more_than_a_run_for_each_head_and_one_without(
    model: nn.Module, tokens: int, heads: Sequence[Head]
) -> None:
    assert forwards(model, tokens, heads) <= len(heads) + 1


def test_layers_below_the_ablated_ones_are_computed_once_for_a_short_text(model: nn.Module) -> None:
    assert forwards(model, 14, EVERY) < 0.75 * len(EVERY)
