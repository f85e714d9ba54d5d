"""Parts of a clean run in a corrupted one, against TransformerLens 4.3 and hooks written by hand."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor

from attnviz.effects import LogitDifference, patch, patch_paths
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
from tests.support.seeded_models import CORRUPTED as SEEDED_CORRUPTED
from tests.support.seeded_models import IDS, LAYERS, OTHER, SEEDED, SOURCE, TOKEN, seeded_model
from tests.support.transformer_lens import expected, same

METRIC = LogitDifference(5, 7)
BLOCKS = {"GPT-2": r"h\.\d", "Llama": r"layers\.\d", "Gemma 2": r"layers\.\d", "BERT": r"layer\.\d"}
WIDTH = 8  # of a head


class Patched:
    """The corrupted run of a model, into which parts of the clean run are set."""

    def __init__(self, name: str) -> None:
        self.name, self.model = name, tiny(name)
        self.clean, self.corrupted = TINY[name].batch(CLEAN), TINY[name].batch(CORRUPTED)
        self.found: list[Tensor] = []

    def run(self) -> None:
        """Runs the model, of which something is patched."""
        self.found.append(self._difference(self.corrupted))

    def _difference(self, batch: dict[str, Tensor]) -> Tensor:
        logits = self.model(**batch).logits[0, -1].double()
        return logits[5] - logits[7]

    def compare(self, what: Any) -> None:
        """Compares how far each run was on the way from the corrupted run to the clean one."""
        clean, corrupted = self._difference(self.clean), self._difference(self.corrupted)
        assert abs(clean - corrupted) > 0.01
        expected = (torch.stack(self.found) - corrupted) / (clean - corrupted)
        found = patch(self.model, self.clean, self.corrupted, METRIC, what).recovered
        torch.testing.assert_close(found.flatten(), expected, atol=1e-4, rtol=1e-4)
        assert float(expected.abs().max()) > 0.01


def seeded(name: str) -> tuple[Any, ...]:
    return seeded_model(name), {"input_ids": IDS}, {"input_ids": SEEDED_CORRUPTED}, LogitDifference(TOKEN, OTHER)


@pytest.mark.parametrize("what", ["output", "query", "key", "value", "pattern", "mlp", "residual"])
@pytest.mark.parametrize("name", SEEDED)
def test_patches_are_those_of_transformer_lens(name: str, what: Any) -> None:
    found = patch(*seeded(name), what)
    same(found.values, expected(name)["patches"][what])
    numbers = expected(name)["clean"], expected(name)["corrupted"]
    assert (found.clean, found.corrupted) == pytest.approx(numbers, abs=1e-4)


@pytest.mark.parametrize("name", SEEDED)
def test_patches_at_positions_are_those_of_transformer_lens(name: str) -> None:
    same(patch(*seeded(name), positions=True).values, expected(name)["patches"]["output by position"])


@pytest.mark.parametrize("name", SEEDED)
def test_direct_paths_are_those_of_transformer_lens(name: str) -> None:
    for what, numbers in expected(name)["paths"].items():
        receivers = [(layer, head) for layer in range(SOURCE[0] + 1, LAYERS) for head in range(HEADS)]
        found = [patch_paths(*seeded(name), receiver, what).values[SOURCE] for receiver in receivers]
        same(torch.stack(found).unflatten(0, (-1, HEADS)), numbers)


@pytest.mark.parametrize("name", [name for name in TINY if name != "BLOOM"])
@torch.no_grad()
def test_the_output_of_a_head(name: str) -> None:
    patched = Patched(name)
    for projection, value in zip(projections(name), outputs(name, patched.clean), strict=True):
        for head in range(HEADS):
            with set_head(projection, head, value[:, :, head]):
                patched.run()
    patched.compare("output")


@pytest.mark.parametrize("what", ["query", "key", "value"])
@pytest.mark.parametrize("name", [name for name in TINY if TINY[name].reads])
@torch.no_grad()
def test_what_a_head_alone_reads(name: str, what: Any) -> None:
    """Heads that share a key or a value with it write what they write in the corrupted run."""
    patched, modules = Patched(name), readers(name, what)
    written, read = outputs(name, patched.corrupted), [call[1] for call in calls(name, patched.clean, modules)]
    for layer, (module, projection) in enumerate(zip(modules, projections(name), strict=True)):
        sharing = HEADS * WIDTH // read[layer].shape[-1]
        for head in range(HEADS):
            own, others = head // sharing, [other for other in range(HEADS) if other != head]

            def set_own(states: Tensor, own: int = own, value: Tensor = read[layer]) -> None:
                states[..., own * WIDTH : (own + 1) * WIDTH] = value[..., own * WIDTH : (own + 1) * WIDTH]

            def hold(states: Tensor, others: list[int] = others, value: Tensor = written[layer]) -> None:
                by_head(states)[:, :, others] = value[:, :, others]

            with changed_output(module, set_own), changed_input(projection, hold):
                patched.run()
    patched.compare(what)


@pytest.mark.parametrize("name", ["Llama", "Gemma 2", "BERT"])
@torch.no_grad()
def test_the_pattern_of_a_head_weighs_values_of_the_corrupted_run(name: str) -> None:
    patched, eager = Patched(name), copy.deepcopy(tiny(name))
    eager.set_attn_implementation("eager")
    weights = eager(**patched.clean, output_attentions=True).attentions
    values = calls(name, patched.corrupted, readers(name, "value"))
    for layer, projection in enumerate(projections(name)):
        value = values[layer][1].unflatten(-1, (-1, WIDTH))
        for head in range(HEADS):
            own = value[:, :, head * value.shape[2] // HEADS]
            with set_head(projection, head, weights[layer][:, head] @ own):
                patched.run()
    patched.compare("pattern")


@pytest.mark.parametrize("name", ["GPT-2", "Llama", "Pythia", "Gemma 2", "Mixtral", "BERT"])
@torch.no_grad()
def test_an_mlp_at_a_position(name: str) -> None:
    patched = Patched(name)
    for mlp, (_states, written) in zip(mlps(name), calls(name, patched.clean, mlps(name)), strict=True):
        for position in range(CLEAN.shape[1]):

            def change(states: Tensor, position: int = position, value: Tensor = written) -> None:
                states[:, position] = value[:, position]

            with changed_output(mlp, change):
                patched.run()
    patched.compare("mlp")


@pytest.mark.parametrize("name", BLOCKS)
@torch.no_grad()
def test_the_residual_stream_before_a_layer_at_a_position(name: str) -> None:
    patched, blocks = Patched(name), named(tiny(name), BLOCKS[name])
    for block, (stream, _written) in zip(blocks, calls(name, patched.clean, blocks), strict=True):
        for position in range(CLEAN.shape[1]):

            def change(states: Tensor, position: int = position, value: Tensor = stream) -> None:
                states[:, position] = value[:, position]

            with changed_input(block, change):
                patched.run()
    patched.compare("residual")
