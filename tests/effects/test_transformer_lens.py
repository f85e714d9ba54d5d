"""Ablations, hidden words, the logit lens, estimates and circuits are those of TransformerLens 4.3 in three seeded
models, and so are the means of effects over fifty prompts."""

from functools import cache
from typing import Any, get_args

import pytest
import torch

from attnviz.effects import (
    KL,
    LogitDifference,
    Loss,
    ModelPart,
    ablations,
    circuit_curves,
    estimates,
    head_circuits,
    knockout,
    logit_lens,
    mlp_ablations,
    part_estimates,
    patch,
    patch_parts,
)
from attnviz.effects.ablation import head_replacements
from attnviz.effects.head_circuits import Composition
from attnviz.effects.path_patching import direct_effects
from attnviz.effects.sweep import Text
from attnviz.models.texts import Texts
from tests.support.seeded_models import (
    CIRCUIT,
    CORRUPTED,
    HEADS,
    IDS,
    LAYERS,
    OTHER,
    PAIRS,
    PROMPTS,
    SEEDED,
    TEXTS,
    TOKEN,
    prompts,
    seeded_model,
)
from tests.support.transformer_lens import expected, same

DIFFERENCE = LogitDifference(TOKEN, OTHER)
METRICS = DIFFERENCE, Loss(), KL()
CLEAN_BATCH, CORRUPTED_BATCH = {"input_ids": IDS}, {"input_ids": CORRUPTED}
OTHERS = {"zero": None, "mean": [{"input_ids": text} for text in TEXTS], "resample": [CORRUPTED_BATCH]}


@cache
def model(name: str) -> Any:
    return seeded_model(name)


@pytest.mark.parametrize("how", OTHERS)
@pytest.mark.parametrize("name", SEEDED)
def test_ablated_heads(name: str, how: Any) -> None:
    found = [ablations(model(name), CLEAN_BATCH, metric, how=how, texts=OTHERS[how]) for metric in METRICS]
    same(torch.stack(found), expected(name)[how])


@pytest.mark.parametrize("name", SEEDED)
def test_ablated_mlps(name: str) -> None:
    found = [mlp_ablations(model(name), CLEAN_BATCH, metric, how="zero") for metric in METRICS]
    same(torch.stack(found), expected(name)["mlps"])


@pytest.mark.parametrize("name", SEEDED)
def test_parts_at_positions_patched_in_several_pairs_of_texts(name: str) -> None:
    numbers = expected(name)["pairs"]
    for (clean, corrupted), patched, guesses in zip(PAIRS, numbers["patched"], numbers["estimates"], strict=True):
        places = [(layer, 0, (i,)) for layer in range(LAYERS) for i in range(clean.shape[1])]
        parts = [ModelPart(what, *place) for what in ("residual", "mlp") for place in places]  # type: ignore[arg-type]
        found = patch_parts(model(name), clean, corrupted, DIFFERENCE, parts)
        same(found.values.unflatten(0, (2, LAYERS, -1)), patched)
        options: dict[str, Any] = {"how": "resample", "texts": [clean]}
        guessed = part_estimates(model(name), corrupted, DIFFERENCE, parts, **options)
        same(guessed.unflatten(0, (2, LAYERS, -1)), guesses[:2])
        of_heads = [ModelPart("output", layer, head, at) for layer, _, at in places for head in range(HEADS)]
        guessed = part_estimates(model(name), corrupted, DIFFERENCE, of_heads, **options)
        same(guessed.unflatten(0, (LAYERS, -1, HEADS)), guesses[2])


@pytest.mark.parametrize("name", SEEDED)
def test_a_circuit_alone_and_a_model_without_it(name: str) -> None:
    order = [ModelPart(*part) for part in CIRCUIT]  # type: ignore[arg-type]
    neutral = [{"input_ids": text} for text in TEXTS]
    sizes = range(len(order) + 1)
    curves = circuit_curves(
        model(name), [IDS], DIFFERENCE, order, neutral=neutral, sizes=sizes, random_sets=0, test_share=1.0
    )
    same(torch.cat([curves.circuit, curves.without]), expected(name)["circuit"])


@pytest.mark.parametrize("name", SEEDED)
def test_hidden_words(name: str) -> None:
    found = [knockout(model(name), CLEAN_BATCH, metric) for metric in METRICS]
    same(torch.stack(found), expected(name)["knockouts"])


@pytest.mark.parametrize("name", SEEDED)
def test_the_logit_lens(name: str) -> None:
    same(logit_lens(model(name), CLEAN_BATCH)[:, [3, -1]], expected(name)["lens"])


@pytest.mark.parametrize("name", SEEDED)
def test_circuits(name: str) -> None:
    circuits, numbers = head_circuits(model(name)), expected(name)["circuits"]
    same(circuits.copying, numbers["copying"])
    for kind in get_args(Composition):
        found = [circuits.composition(kind, LAYERS - 1, head)[:-1] for head in range(HEADS)]
        same(torch.stack(found, -1), numbers[kind])


CLEAN_PROMPTS, CORRUPTED_PROMPTS = (Texts(None, side) for side in zip(*prompts(), strict=True))
EVERY = [(layer, head) for layer in range(LAYERS) for head in range(HEADS)]


@pytest.mark.parametrize("name", SEEDED)
def test_ablated_heads_over_fifty_prompts(name: str) -> None:
    found = ablations(model(name), CLEAN_PROMPTS, DIFFERENCE, texts=OTHERS["mean"])
    assert len(found) == PROMPTS == 50
    same(found.mean, expected(name)["prompts"]["mean"])


@pytest.mark.parametrize("name", SEEDED)
def test_shares_that_heads_recover_over_fifty_prompts(name: str) -> None:
    found = patch(model(name), CLEAN_PROMPTS, CORRUPTED_PROMPTS, DIFFERENCE)
    same(found.map(lambda one: one.recovered).mean, expected(name)["prompts"]["recovered"])


@pytest.mark.parametrize("name", SEEDED)
def test_paths_to_the_logits_over_fifty_prompts(name: str) -> None:
    each = []
    for clean, corrupted in zip(CLEAN_PROMPTS, CORRUPTED_PROMPTS, strict=True):
        text = Text.from_batch(model(name), corrupted)
        each.append(direct_effects(text, DIFFERENCE, EVERY, head_replacements(text, "resample", [clean])))
    same(torch.stack(each).mean(0).unflatten(0, (LAYERS, HEADS)), expected(name)["prompts"]["direct"])


@pytest.mark.parametrize("name", SEEDED)
def test_estimates_over_fifty_prompts(name: str) -> None:
    found = estimates(model(name), CLEAN_PROMPTS, DIFFERENCE, texts=OTHERS["mean"])
    same(found.mean, expected(name)["prompts"]["estimates"])
