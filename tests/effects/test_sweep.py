"""What a sweep of changed runs costs: rows that pass through layers, counted."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

from attnviz.effects import KL, Logit, LogitDifference, Loss, Probability, ablations, patch, sweep
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


@contextmanager
def counted_logits(model: nn.Module, counts: list[int]) -> Iterator[None]:
    """Adds the number of positions whose logits are computed, of each run."""
    hook = model.lm_head.register_forward_hook(lambda _head, _args, logits: counts.append(logits.shape[1]))
    try:
        yield
    finally:
        hook.remove()


@pytest.mark.parametrize("metric", [Logit(5), KL(), LogitDifference(5, 7, -3), Probability(5, 297), Loss(299)])
def test_of_a_long_text_no_logits_are_computed_that_a_metric_does_not_read(model: nn.Module, metric: Any) -> None:
    ids, counts = torch.arange(300)[None] % 90, list[int]()
    with counted_logits(model, counts):
        ablations(model, ids, metric, heads=[(0, 0)])
        patch(model, ids, ids.flip(1), metric, heads=[(0, 0)])
    assert max(counts) == sweep.LAST_POSITIONS


METRICS = (Logit(5), Logit(5, 1), KL(2), Probability(5, -8), Loss(), Loss(2, 3), Loss(7))


@pytest.mark.parametrize("metric", [*METRICS, lambda output, batch: output.logits[:, 2, 5]])
@pytest.mark.parametrize("padding", [0, 5])
def test_effects_are_the_same_whatever_logits_are_kept(
    model: nn.Module, monkeypatch: pytest.MonkeyPatch, metric: Any, padding: int
) -> None:
    ids, mask = torch.arange(9)[None] + 20, torch.tensor([[1] * 9])
    ids, mask = (nn.functional.pad(one, (0, padding)) for one in (ids, mask))
    batch, other = ({"input_ids": one, "attention_mask": mask} for one in (ids, ids + 3))

    def measured() -> torch.Tensor:
        found = patch(model, other, batch, metric, "value", heads=EVERY[:3])
        effects = ablations(model, batch, metric, heads=EVERY[:3])
        return torch.cat([effects.flatten(), found.values.flatten(), torch.tensor([found.clean, found.corrupted])])

    expected = measured()
    monkeypatch.setattr(sweep, "LAST_POSITIONS", 4)
    torch.testing.assert_close(measured(), expected, equal_nan=True, atol=1e-6, rtol=1e-5)
