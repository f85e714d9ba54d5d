"""Direct paths from head to head, against hooks written by hand."""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel

from attnviz.effects import LogitDifference, Patching, patch_paths
from tests.support.architectures import GPT
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
from tests.support.seeded_models import drawn

WIDTH, METRIC = 8, LogitDifference(5, 7)
PARTS = ["query", "key", "value"]


def reading(name: str, what: str) -> tuple[list[nn.Module], int]:
    """Returns the projections of queries, keys or values, and where in their output these begin."""
    if name == "GPT-2":
        return named(tiny(name), r"attn\.c_attn"), PARTS.index(what) * HEADS * WIDTH
    return readers(name, what), 0


def path_by_hand(
    name: str, what: str, sender: tuple[int, int], receivers: Sequence[tuple[int, int]], mlps_are_free: bool = False
) -> float:
    """Returns the metric where heads of one layer read what they would read if another wrote what it writes in the
    clean run; without receivers, that of the direct path."""
    clean, corrupted = TINY[name].batch(CLEAN), TINY[name].batch(CORRUPTED)
    (first, number), before = sender, projections(name)
    sent, own = outputs(name, clean)[first][:, :, number], outputs(name, corrupted)
    held = list(zip(before, [written.flatten(2) for written in own], strict=True))
    held_mlps = list(zip(mlps(name), [written for _read, written in calls(name, corrupted, mlps(name))], strict=True))
    modules, start = reading(name, what) if receivers else ([], 0)
    kept: list[Tensor] = []
    with ExitStack() as hooks, torch.no_grad():
        for projection, written in held:
            hooks.enter_context(changed_input(projection, lambda states, written=written: states.copy_(written)))
        for mlp, written in [] if mlps_are_free else held_mlps:
            hooks.enter_context(changed_output(mlp, lambda states, written=written: states.copy_(written)))
        hooks.enter_context(set_head(before[first], number, sent))
        for layer, _head in receivers[:1]:
            hooks.enter_context(changed_output(modules[layer], lambda states: kept.append(states.clone())))
        logits = tiny(name)(**corrupted).logits[0, -1].double()
    if not receivers:
        return float(logits[5] - logits[7])
    [read] = kept
    kv_heads = (read.shape[-1] - start if name != "GPT-2" else HEADS * WIDTH) // WIDTH
    others = [other for other in range(HEADS) if (layer, other) not in receivers]

    def receive(states: Tensor) -> None:
        for _layer, head in receivers:
            part = slice(start + head * kv_heads // HEADS * WIDTH, start + (head * kv_heads // HEADS + 1) * WIDTH)
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
    expected = torch.tensor([path_by_hand(name, what, (0, head), [receiver]) for head in range(HEADS)]).double()
    torch.testing.assert_close(found.values[0], expected, atol=1e-4, rtol=1e-4)
    assert float((expected - found.corrupted).abs().max()) > 1e-3
    assert bool(found.values[1:].isnan().all())


@pytest.mark.parametrize("is_free", [False, True])
@pytest.mark.parametrize("what", PARTS)
@pytest.mark.parametrize("name", ["GPT-2", "Llama", "Gemma 2"])
def test_paths_to_several_heads_that_mlps_lead_over_or_not(name: str, what: Any, is_free: bool) -> None:
    clean, corrupted, receivers = TINY[name].batch(CLEAN), TINY[name].batch(CORRUPTED), [(1, 2), (1, 0)]
    mlps_are: Any = "free" if is_free else "frozen"
    found = patch_paths(tiny(name), clean, corrupted, METRIC, receivers, what, mlps=mlps_are)
    expected = [path_by_hand(name, what, (0, head), receivers, is_free) for head in range(HEADS)]
    torch.testing.assert_close(found.values[0], torch.tensor(expected).double(), atol=1e-4, rtol=1e-4)
    other = patch_paths(tiny(name), clean, corrupted, METRIC, receivers, what, mlps="frozen")
    assert is_free == bool((found.values[0] - other.values[0]).abs().max() > 1e-3)


@pytest.mark.parametrize("is_free", [False, True])
@pytest.mark.parametrize("name", ["GPT-2", "Llama", "Pythia", "Gemma 2", "BERT"])
def test_paths_to_the_logits(name: str, is_free: bool) -> None:
    clean, corrupted = TINY[name].batch(CLEAN), TINY[name].batch(CORRUPTED)
    mlps_are: Any = "free" if is_free else "frozen"
    found = patch_paths(tiny(name), clean, corrupted, METRIC, "logits", mlps=mlps_are)
    expected = [path_by_hand(name, "query", (i, head), [], is_free) for i in range(2) for head in range(HEADS)]
    torch.testing.assert_close(found.values.flatten(), torch.tensor(expected).double(), atol=1e-4, rtol=1e-4)
    assert float((found.values - found.corrupted).abs().max()) > 1e-3


@torch.no_grad()
def test_paths_to_heads_of_several_layers() -> None:
    """Each receiver gets what comes from the sender alone; the last one changes what the metric reads, too."""
    model = drawn(GPT2LMHeadModel(GPT2Config(**GPT | {"n_layer": 3, "eos_token_id": 2})))
    blocks, receivers = model.transformer.h, [(1, 1), (2, 3)]
    projected, read = ([getattr(block.attn, name) for block in blocks] for name in ("c_proj", "c_attn"))

    def written(ids: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        values: tuple[list[Tensor], list[Tensor]] = [], []
        keep = [lambda own, kept=kept: kept.append(own.clone()) for kept in values]
        with ExitStack() as exits:
            for block in blocks:
                exits.enter_context(changed_input(block.attn.c_proj, keep[0]))
                exits.enter_context(changed_output(block.mlp, keep[1]))
            model(ids)
        return values

    (sent, _), (own, own_mlps) = written(CLEAN), written(CORRUPTED)
    found = patch_paths(model, CLEAN, CORRUPTED, METRIC, receivers, "query")
    queries: dict[int, Tensor] = {}
    for head in range(HEADS):
        with ExitStack() as exits:
            for block, value, of_mlp in zip(blocks, own, own_mlps, strict=True):
                exits.enter_context(changed_input(block.attn.c_proj, lambda states, value=value: states.copy_(value)))
                exits.enter_context(changed_output(block.mlp, lambda states, value=of_mlp: states.copy_(value)))
            exits.enter_context(set_head(projected[0], head, by_head(sent[0])[:, :, head]))
            for layer, _head in receivers:
                keep = lambda states, layer=layer: queries.update({layer: states.clone()})  # noqa: E731
                exits.enter_context(changed_output(read[layer], keep))
            model(CORRUPTED)
        with ExitStack() as exits:
            for layer, receiver in receivers:
                part = slice(receiver * WIDTH, (receiver + 1) * WIDTH)

                def receive(states: Tensor, layer: int = layer, part: slice = part) -> None:
                    states[..., part] = queries[layer][..., part]

                exits.enter_context(changed_output(read[layer], receive))
            logits = model(CORRUPTED).logits[0, -1].double()
        assert float(found.values[0, head]) == pytest.approx(float(logits[5] - logits[7]), abs=1e-4)
    assert found.values[1].isfinite().all()
    assert found.values[2].isnan().all()


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
