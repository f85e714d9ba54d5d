"""Heads ablated as rows of one batch, whose lower layers are computed once, on every architecture that is captured."""

from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from attnviz.effects import Logit
from attnviz.effects.metrics import Measurement
from attnviz.effects.parts import ModelPart, PartReplacement, changed_parts, every_head
from attnviz.effects.sweep import Text
from attnviz.tracing.changed_run import layer_change, run_changed
from attnviz.tracing.run_changes import zero_heads
from tests.support.architectures import ZOO
from tests.support.attributions import first_example
from tests.support.torch_architectures import TORCH_ZOO

OF_PAIRS = {"CLIP"}  # its logits are of all pictures and texts of a batch


def states_of(output: Any) -> Tensor:
    """The first tensor that a model returns, or its logits."""
    return next(leaf for leaf in (getattr(output, "logits", None), *tree_leaves(output)) if leaf is not None)


class Direction(Measurement):
    """A direction of all that a model returns for an example."""

    options: ClassVar = {}
    own: Tensor  # what it returns for one example

    def values(self, output: Any) -> Tensor:
        states = states_of(output)
        examples = states.numel() // self.own.numel()
        states = states if len(states) == examples * len(self.own) else states.transpose(0, 1)
        states = states.double().unflatten(0, (examples, -1)).flatten(1)
        return states @ torch.randn(states.shape[1], generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize(
    "architecture", [one for one in (*ZOO, *TORCH_ZOO) if one.name not in OF_PAIRS], ids=lambda one: one.name
)
def test_ablated_heads_of_a_batch_are_those_of_single_runs(architecture) -> None:
    first = first_example(architecture)
    text = Text(first.model, first.arguments)
    measurement = Direction(Logit(0), text.model, text.arguments)
    measurement.own = states_of(text.own.output)
    before, expected = measurement.values(text.own.output), []
    for head in (heads := every_head(text)):
        output, _ = run_changed(
            text.model,
            text.arguments,
            lambda index, _, head=head: layer_change([[zero_heads([head])]], index, lambda: 1),
        )
        expected.append(measurement.values(output) - before)
    runs = [changed_parts(text, {ModelPart("output", *head): PartReplacement(None)}) for head in heads]
    [found] = text._effects([measurement], runs, before[None])
    effects = torch.cat(expected)
    assert float((found - effects).abs().max()) < 1e-4 * float(effects.abs().max())
