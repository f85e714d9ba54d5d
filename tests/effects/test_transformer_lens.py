"""Ablations, hidden words, the logit lens and circuits are those of TransformerLens 4.3 in three seeded models."""

from functools import cache
from typing import Any, get_args

import pytest
import torch

from attnviz.effects import KL, LogitDifference, Loss, ablations, head_circuits, knockout, logit_lens, mlp_ablations
from attnviz.effects.head_circuits import Composition
from tests.support.seeded_models import CORRUPTED, HEADS, IDS, LAYERS, OTHER, SEEDED, TEXTS, TOKEN, seeded_model
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
