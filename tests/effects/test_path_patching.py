"""Direct paths from head to head, against hooks written by hand."""

from contextlib import ExitStack
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attnviz.effects import LogitDifference, Patching, patch_paths
from tests.support.output_projections import (
    CLEAN,
    CORRUPTED,
    HEADS,
    TINY,
    by_head,
    calls,
    changed_input,
    changed_output,
    mlps,
    named,
    outputs,
    projections,
    readers,
    set_head,
    tiny,
)

WIDTH, METRIC = 8, LogitDifference(5, 7)
PARTS = ["query", "key", "value"]


def reading(name: str, what: str) -> tuple[list[nn.Module], int]:
    """Returns the projections of queries, keys or values, and where in their output these begin."""
    if name == "GPT-2":
        return named(tiny(name), r"attn\.c_attn"), PARTS.index(what) * HEADS * WIDTH
    return readers(name, what), 0


def path_by_hand(name: str, what: str, sender: tuple[int, int], receiver: tuple[int, int]) -> float:
    """Returns the metric where a head reads what it would read if another wrote what it writes in the clean run."""
    clean, corrupted = TINY[name].batch(CLEAN), TINY[name].batch(CORRUPTED)
    (first, number), (layer, head), before = sender, receiver, projections(name)
    sent, own = outputs(name, clean)[first][:, :, number], outputs(name, corrupted)
    held = list(zip(before[:layer], [written.flatten(2) for written in own], strict=False))
    held_mlps = list(zip(mlps(name), [written for _read, written in calls(name, corrupted, mlps(name))], strict=True))
    modules, start = reading(name, what)
    kept: list[Tensor] = []
    with ExitStack() as hooks, torch.no_grad():
        for projection, written in held:
            hooks.enter_context(changed_input(projection, lambda states, written=written: states.copy_(written)))
        for mlp, written in held_mlps:
            hooks.enter_context(changed_output(mlp, lambda states, written=written: states.copy_(written)))
        hooks.enter_context(set_head(before[first], number, sent))
        hooks.enter_context(changed_output(modules[layer], lambda states: kept.append(states.clone())))
        tiny(name)(**corrupted)
    [read] = kept
    kv_heads = (read.shape[-1] - start if name != "GPT-2" else HEADS * WIDTH) // WIDTH
    part = slice(start + head * kv_heads // HEADS * WIDTH, start + (head * kv_heads // HEADS + 1) * WIDTH)
    others = [other for other in range(HEADS) if other != head]

    def receive(states: Tensor) -> None:
        states[..., part] = read[..., part]

    def hold(states: Tensor) -> None:
        by_head(states)[:, :, others] = own[layer][:, :, others]

    with changed_output(modules[layer], receive), changed_input(before[layer], hold), torch.no_grad():
        logits = tiny(name)(**corrupted).logits[0, -1].double()
    return float(logits[5] - logits[7])


@pytest.mark.parametrize("what", PARTS)
@pytest.mark.parametrize(
    ("name", "receiver"), [("GPT-2", (1, 2)), ("Llama", (1, 3)), ("Gemma 2", (1, 0)), ("BERT", (1, 1))]
)
def test_a_path_of_two_layers(name: str, receiver: tuple[int, int], what: Any) -> None:
    clean, corrupted = TINY[name].batch(CLEAN), TINY[name].batch(CORRUPTED)
    found = patch_paths(tiny(name), clean, corrupted, METRIC, receiver, what)
    expected = torch.tensor([path_by_hand(name, what, (0, head), receiver) for head in range(HEADS)]).double()
    torch.testing.assert_close(found.values[0], expected, atol=1e-4, rtol=1e-4)
    assert float((expected - found.corrupted).abs().max()) > 1e-3
    assert bool(found.values[1:].isnan().all())


@pytest.mark.parametrize(("receiver", "what"), [((0, 1), "query"), ((1, 1), "pattern")])
def test_a_path_to_no_later_head_or_to_its_weights_is_refused(receiver: tuple[int, int], what: Any) -> None:
    with pytest.raises(ValueError, match="A path leads from a head to the query, key or value of a head in a later"):
        patch_paths(tiny("GPT-2"), CLEAN, CORRUPTED, METRIC, receiver, what)
    with pytest.raises(ValueError, match="There is no head 9"):
        patch_paths(tiny("GPT-2"), CLEAN, CORRUPTED, METRIC, (1, 9))


def test_progress_of_paths_reaches_the_end_and_what_is_recovered() -> None:
    reports: list[tuple[float, Patching]] = []
    found = patch_paths(
        tiny("GPT-2"), CLEAN, CORRUPTED, METRIC, (1, 0), on_progress=lambda *report: reports.append(report)
    )
    shares = [share for share, _patching in reports]
    assert shares == sorted(shares)
    assert shares[0] <= 0.5
    assert shares[-1] == 1
    torch.testing.assert_close(reports[-1][1].recovered, found.recovered, equal_nan=True)
