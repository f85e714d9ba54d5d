"""Groups of heads that are ablated together: against models without the heads."""

import pytest
import torch
from torch import nn

from attnviz.effects import LogitDifference
from attnviz.effects.ablation import Head, group_effects
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
    found = group_effects(tiny(name), TINY[name].batch(), METRIC, groups, how="zero")
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
