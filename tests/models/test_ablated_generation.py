"""Text that a model writes without some of its heads: each step is that of a forward pass with zeros set by hand."""

from contextlib import ExitStack
from typing import Any

import pytest
import torch

from attnviz import Intervention, capture, writing
from attnviz.masks import SlidingWindow
from tests.support.output_projections import CLEAN, TINY, named, projections, set_head, tiny

HEADS = ((0, 1), (1, 3), (1, 0))
COUNT = 5


@pytest.mark.parametrize("padded", [0, 2])
@pytest.mark.parametrize("name", ["GPT-2", "Llama", "Pythia", "Gemma 2", "Mixtral"])
def test_each_step_is_a_forward_pass_with_zeros_by_hand(name: str, padded: int) -> None:
    model, prompt = tiny(name), torch.cat([torch.ones(1, padded, dtype=torch.long), CLEAN], 1)
    mask = (torch.arange(prompt.shape[1])[None] >= padded).long()
    batch = {"input_ids": prompt, "attention_mask": mask}
    steps = [*writing(model, None, batch, COUNT, alternatives=20, interventions=Intervention(ablated=HEADS))]
    plain = [*writing(model, None, batch, COUNT, alternatives=20)]
    for position, step in enumerate(steps):
        written = torch.tensor([[one.token_id for one in steps[:position]]], dtype=torch.long)
        with ExitStack() as hooks, torch.no_grad():
            for layer, head in HEADS:
                hooks.enter_context(set_head(projections(name)[layer], head, 0.0))
            logits = model(torch.cat([CLEAN, written], 1)).logits[0, -1]
        expected = logits.softmax(-1)[[one.token_id for one in step.alternatives]]
        found = torch.tensor([one.probability for one in step.alternatives])
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-3)
        assert not step.trace.missing
    assert abs(steps[0].probability - plain[0].probability) > 1e-4
    fidelity = "weights_only" if name == "Gemma 2" and padded else "verified"  # as without ablation
    assert [layer.fidelity for layer in steps[-1].trace] == [fidelity] * 2


@pytest.mark.parametrize("name", ["T5", "BART"])
def test_layers_of_an_encoder_and_of_its_decoder_are_counted_as_they_run(name: str) -> None:
    model, batch = tiny(name), TINY[name].batch()
    layers = len(capture(model, batch))
    heads = ((0, 2), (layers - 2, 1), (layers - 1, 3))
    steps = [*writing(model, None, CLEAN, 3, alternatives=20, interventions=[Intervention(ablated=heads)])]
    start: Any = torch.tensor([[model.config.decoder_start_token_id]])
    for position, step in enumerate(steps):
        ids = torch.cat([start, torch.tensor([[one.token_id for one in steps[:position]]], dtype=torch.long)], 1)
        with ExitStack() as hooks, torch.no_grad():
            for layer, head in heads:
                hooks.enter_context(set_head(projections(name)[layer], head, 0.0))
            logits = model(input_ids=CLEAN, decoder_input_ids=ids).logits[0, -1]
        found = {one.token_id: one.probability for one in step.alternatives}
        finite = {i: p for i, p in found.items() if p > 1e-6}
        ratio = torch.tensor([*finite.values()]).log() - logits[[*finite]]
        torch.testing.assert_close(ratio, ratio[:1].expand_as(ratio), atol=1e-3, rtol=0)


def test_without_a_head_that_exists_nothing_is_written() -> None:
    for heads, message in ((((0, 9),), "no head 9"), (((7, 0),), "There is no head 0 in a layer number 7")):
        with pytest.raises(ValueError, match=message):
            next(writing(tiny("GPT-2"), None, CLEAN, 2, interventions=Intervention(ablated=heads)))
    with pytest.raises(ValueError, match="A text is written with heads ablated"):
        writing(tiny("GPT-2"), None, CLEAN, 2, interventions=Intervention(mask=SlidingWindow(2)))
    with pytest.raises(ValueError, match="cannot be changed while it writes"):
        next(writing(tiny("BLOOM"), None, CLEAN, 2, interventions=Intervention(ablated=((0, 1),))))
    assert named(tiny("GPT-2"), r"attn\.c_proj")[0]._forward_pre_hooks == {}
