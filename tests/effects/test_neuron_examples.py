"""Where hidden units are largest over texts: against hooks written by hand."""

import pytest
import torch
from torch import Tensor

from attnviz.effects import neuron_examples
from tests.effects.test_parts import BLOCKS, DECODERS, UNITS
from tests.support.output_projections import CLEAN, CORRUPTED, named, tiny

TEXTS = [CLEAN, CORRUPTED, torch.tensor([[13, 44, 6, 21]]), torch.tensor([[7, 7, 2]])]


def activations(name: str, ids: Tensor) -> list[Tensor]:
    """What the last map of each MLP reads, (positions, units)."""
    read: list[Tensor] = []
    hooks = [
        module.register_forward_hook(lambda _module, inputs, _output: read.append(inputs[0][0]))
        for module in named(tiny(name), rf"{BLOCKS[name]}.*{UNITS[name]}$")
    ]
    with torch.no_grad():
        tiny(name)(ids)
    for hook in hooks:
        hook.remove()
    return read


@pytest.mark.parametrize("name", DECODERS)
def test_examples_are_the_largest_activations_of_each_text(name: str) -> None:
    every = [activations(name, ids) for ids in TEXTS]
    found = neuron_examples(tiny(name), TEXTS, count=3)
    units = [one.shape[1] for one in every[0]]
    assert found.mlps.tolist() == [mlp for mlp, count in enumerate(units) for _unit in range(count)]
    largest = torch.stack([torch.cat([one.amax(0) for one in of_text]) for of_text in every], 1)
    torch.testing.assert_close(found.activations, largest.topk(3).values)
    rows = zip(
        found.mlps, found.neurons, found.activations[:, 0], found.texts[:, 0], found.positions[:, 0], strict=True
    )
    for mlp, neuron, activation, text, position in rows:
        assert float(every[text][mlp][position, neuron]) == pytest.approx(float(activation), abs=1e-6)
    some = neuron_examples(tiny(name), TEXTS, [(1, 4), (0, 2)], count=9)
    assert some.activations.shape == (2, len(TEXTS))
    torch.testing.assert_close(some.activations[1, :3], found.activations[2])
    assert len(some.to_frame()) == 2 * len(TEXTS)


def test_units_that_are_not_there_are_refused() -> None:
    with pytest.raises(ValueError, match="no neuron 999"):
        neuron_examples(tiny("GPT-2"), TEXTS, [(0, 999)])
    with pytest.raises(ValueError, match="no MLP 9"):
        neuron_examples(tiny("GPT-2"), TEXTS, [(9, 0)])
    with pytest.raises(ValueError, match="at least one text"):
        neuron_examples(tiny("GPT-2"), [])
