"""Parts of a clean run in a corrupted one, against hooks written by hand."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from attnviz.effects import LogitDifference, patch
from tests.support.output_projections import (
    CLEAN,
    CORRUPTED,
    HEADS,
    TINY,
    changed_output,
    kept,
    mlps,
    named,
    outputs,
    projections,
    readers,
    set_head,
    tiny,
)

METRIC = LogitDifference(5, 7)
BLOCKS = {"GPT-2": r"h\.\d", "Llama": r"layers\.\d", "Gemma 2": r"layers\.\d", "BERT": r"layer\.\d"}


def difference(logits: Tensor) -> Tensor:
    return logits[0, -1].double()[5] - logits[0, -1].double()[7]


def batches(name: str) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    return TINY[name].batch(CLEAN), TINY[name].batch(CORRUPTED)


def recovered(name: str, runs: list[Callable[[], Tensor]]) -> Tensor:
    """Returns how far the logits of runs are on the way from the corrupted run to the clean one."""
    clean, corrupted = (difference(tiny(name)(**batch).logits) for batch in batches(name))
    assert abs(clean - corrupted) > 0.01
    return torch.stack([(difference(run()) - corrupted) / (clean - corrupted) for run in runs])


def same(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found.flatten(), expected, atol=1e-4, rtol=1e-4)
    assert expected.abs().max() > 0.01


@pytest.mark.parametrize("name", [name for name in TINY if name != "BLOOM"])
@torch.no_grad()
def test_the_output_of_a_head(name: str) -> None:
    clean, corrupted = batches(name)
    written, runs = outputs(name, clean), []
    for layer, projection in enumerate(projections(name)):
        for head in range(HEADS):

            def run(projection: Any = projection, head: int = head, value: Tensor = written[layer]) -> Tensor:
                with set_head(projection, head, value[:, :, head]):
                    return tiny(name)(**corrupted).logits

            runs.append(run)
    same(patch(tiny(name), clean, corrupted, METRIC), recovered(name, runs))


@pytest.mark.parametrize("what", ["query", "key", "value"])
@pytest.mark.parametrize("name", [name for name in TINY if TINY[name].reads])
@torch.no_grad()
def test_what_a_head_alone_reads(name: str, what: Any) -> None:
    """Heads that share a key or a value with it read that of the corrupted run: they write what they write there."""
    clean, corrupted = batches(name)
    modules, written, runs = readers(name, what), outputs(name, corrupted), []
    read = kept(name, clean, modules)
    for layer, (module, projection) in enumerate(zip(modules, projections(name), strict=True)):
        width = written[layer].shape[-1]
        sharing = HEADS * width // read[layer].shape[-1]
        for head in range(HEADS):

            def run(head: int = head, layer: int = layer, module: Any = module, projection: Any = projection) -> Tensor:
                own = slice(head // sharing * width, (head // sharing + 1) * width)

                def change(states: Tensor) -> None:
                    states[..., own] = read[layer][..., own]

                def hold(_: Any, args: tuple[Tensor]) -> tuple[Tensor]:
                    heads = written[layer].clone()
                    heads[:, :, head] = args[0].unflatten(-1, (HEADS, -1))[:, :, head]
                    return (heads.flatten(-2),)

                hook = projection.register_forward_pre_hook(hold)
                with changed_output(module, change):
                    logits: Tensor = tiny(name)(**corrupted).logits
                hook.remove()
                return logits

            runs.append(run)
    same(patch(tiny(name), clean, corrupted, METRIC, what), recovered(name, runs))


@pytest.mark.parametrize("name", ["Llama", "Gemma 2", "BERT"])
@torch.no_grad()
def test_the_pattern_of_a_head_weighs_values_of_the_corrupted_run(name: str) -> None:
    clean, corrupted = batches(name)
    eager = copy.deepcopy(tiny(name))
    eager.set_attn_implementation("eager")
    weights = eager(**clean, output_attentions=True).attentions
    values, runs = kept(name, corrupted, readers(name, "value")), []
    for layer, projection in enumerate(projections(name)):
        by_head = values[layer].unflatten(-1, (-1, 8))
        by_head = by_head.repeat_interleave(HEADS // by_head.shape[2], 2)
        for head in range(HEADS):

            def run(
                projection: Any = projection,
                head: int = head,
                value: Tensor = weights[layer][:, head] @ by_head[:, :, head],
            ) -> Tensor:
                with set_head(projection, head, value):
                    return tiny(name)(**corrupted).logits

            runs.append(run)
    same(patch(tiny(name), clean, corrupted, METRIC, "pattern"), recovered(name, runs))


@pytest.mark.parametrize("name", ["GPT-2", "Llama", "Pythia", "Gemma 2", "Mixtral", "BERT"])
@torch.no_grad()
def test_an_mlp_at_a_position(name: str) -> None:
    clean, corrupted = batches(name)
    written, runs = kept(name, clean, mlps(name)), []
    for mlp, value in zip(mlps(name), written, strict=True):
        for position in range(CLEAN.shape[1]):

            def run(mlp: Any = mlp, position: int = position, value: Tensor = value) -> Tensor:
                def change(states: Tensor) -> None:
                    states[:, position] = value[:, position]

                with changed_output(mlp, change):
                    return tiny(name)(**corrupted).logits

            runs.append(run)
    same(patch(tiny(name), clean, corrupted, METRIC, "mlp"), recovered(name, runs))


@pytest.mark.parametrize("name", BLOCKS)
@torch.no_grad()
def test_the_residual_stream_before_a_layer_at_a_position(name: str) -> None:
    clean, corrupted = batches(name)
    blocks, streams, runs = named(tiny(name), BLOCKS[name]), [], []
    hooks = [block.register_forward_pre_hook(lambda module, args: streams.append(args[0])) for block in blocks]
    tiny(name)(**clean)
    for hook in hooks:
        hook.remove()
    for layer, block in enumerate(blocks):
        for position in range(CLEAN.shape[1]):

            def run(block: Any = block, position: int = position, value: Tensor = streams[layer]) -> Tensor:
                def change(_: Any, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
                    states = args[0].clone()
                    states[:, position] = value[:, position]
                    return states, *args[1:]

                hook = block.register_forward_pre_hook(change)
                logits: Tensor = tiny(name)(**corrupted).logits
                hook.remove()
                return logits

            runs.append(run)
    same(patch(tiny(name), clean, corrupted, METRIC, "residual"), recovered(name, runs))


def test_a_part_of_all_positions_recovers_all() -> None:
    """The residual stream before the first layer is all that reaches a model without positions elsewhere."""
    clean, corrupted = batches("Llama")
    same_text = patch(tiny("Llama"), clean, corrupted, METRIC, "residual")
    changed = (CLEAN != CORRUPTED)[0]
    assert float(same_text[0, ~changed].abs().max()) == 0
