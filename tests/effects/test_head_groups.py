"""Groups of heads that are ablated together, and a small set that keeps a metric: against models without the heads."""

from itertools import combinations

import pytest
import torch
from torch import nn

from attnviz.effects import KL, LogitDifference
from attnviz.effects.ablation import Head
from attnviz.effects.head_groups import group_effects, smallest_set
from tests.support.output_projections import CORRUPTED, HEADS, TINY, by_head, outputs, projections, tiny

METRIC = LogitDifference(5, 7)
EVERY = [(layer, head) for layer in range(2) for head in range(HEADS)]


@torch.no_grad()
def difference(name: str, ablated: list[Head], values: list[torch.Tensor] | None = None) -> float:
    """The difference of two logits where heads write zeros or other values, by hooks."""
    hooks = []
    for layer, projection in enumerate(projections(name)):
        heads = [head for at, head in ablated if at == layer]

        def change(_module: nn.Module, args, layer=layer, heads=heads):
            states = args[0].clone()
            by_head(states)[..., heads, :] = 0 if values is None else values[layer][..., heads, :]
            return states, *args[1:]

        hooks.append(projection.register_forward_pre_hook(change))
    logits = tiny(name)(**TINY[name].batch()).logits[0, -1].double()
    for hook in hooks:
        hook.remove()
    return float(logits[5] - logits[7])


@pytest.mark.parametrize("name", ["GPT-2", "Llama", "Pythia", "Gemma 2"])
def test_a_group_is_ablated_together(name: str) -> None:
    groups = [[(0, 1), (0, 3), (1, 2)], [], EVERY, [(1, 0)]]
    found = group_effects(tiny(name), TINY[name].batch(), METRIC, groups)
    own = difference(name, [])
    torch.testing.assert_close(
        found, torch.tensor([difference(name, group) - own for group in groups]).double(), atol=1e-4, rtol=1e-4
    )
    assert found[1] == 0
    assert found.abs().max() > 1e-2


def test_a_group_writes_what_it_writes_in_another_text() -> None:
    name, group = "GPT-2", [(0, 0), (1, 3)]
    text = TINY[name].batch(CORRUPTED)
    found = group_effects(tiny(name), TINY[name].batch(), METRIC, [group], how="resample", texts=[text])
    expected = difference(name, group, outputs(name, text)) - difference(name, [])
    assert float(found[0]) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("kept", [0.5, 0.9])
@pytest.mark.parametrize("name", ["GPT-2", "Llama", "Pythia", "Gemma 2"])
def test_a_small_set_keeps_the_metric_and_none_of_it_can_be_left_out(name: str, kept: float) -> None:
    found = smallest_set(tiny(name), TINY[name].batch(), METRIC, kept=kept)
    with_all, with_none = difference(name, []), difference(name, EVERY)

    def share(heads) -> float:
        value = difference(name, [head for head in EVERY if head not in heads])
        return (value - with_none) / (with_all - with_none)

    assert found.kept == pytest.approx(share(found.heads), abs=1e-3)
    assert share(found.heads) >= kept - 1e-3
    assert len(found.heads) < len(EVERY)
    for head in found.heads:
        assert share([other for other in found.heads if other != head]) < kept + 1e-3
    # Of two layers of four heads all sets can be tried: the greedy one is at most two heads larger than the smallest.
    least = next(
        size for size in range(len(EVERY) + 1) if any(share(heads) >= kept for heads in combinations(EVERY, size))
    )
    assert least <= len(found.heads) <= least + 2


def test_a_divergence_is_kept_where_it_is_small() -> None:
    found = smallest_set(tiny("GPT-2"), TINY["GPT-2"].batch(), KL(), kept=0.8)
    assert found.with_all == 0
    assert 0 < found.value <= 0.2 * found.with_none + 1e-9
    assert found.kept == pytest.approx(1 - found.value / found.with_none)


def test_progress_shows_smaller_and_smaller_sets_and_can_end_the_search() -> None:
    steps: list[tuple[float, int]] = []
    smallest_set(
        tiny("GPT-2"), TINY["GPT-2"].batch(), METRIC, on_progress=lambda share, s: steps.append((share, len(s.heads)))
    )
    assert steps == sorted(steps, key=lambda step: (step[0], -step[1]))
    assert steps[0] == (0.0, 8)
    assert steps[-1][1] < 8

    def stop(share: float, found: object) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        smallest_set(tiny("GPT-2"), TINY["GPT-2"].batch(), METRIC, on_progress=stop)


@pytest.mark.parametrize("kept", [0.0, 1.5])
def test_a_share_that_cannot_be_kept_is_refused(kept: float) -> None:
    with pytest.raises(ValueError, match="above 0 and at most 1"):
        smallest_set(tiny("GPT-2"), TINY["GPT-2"].batch(), METRIC, kept=kept)
