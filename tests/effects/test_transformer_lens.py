"""Ablations, hidden words and the logit lens are those of TransformerLens 4.3 in three seeded models."""

from functools import cache
from typing import Any

import pytest
import torch

from attnviz.effects import KL, LogitDifference, Loss, ablations, knockout, logit_lens, mlp_ablations
from tests.support.seeded_models import CORRUPTED, IDS, OTHER, SEEDED, TEXTS, TOKEN, seeded_model
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
    found = [mlp_ablations(model(name), CLEAN_BATCH, metric) for metric in METRICS]
    same(torch.stack(found), expected(name)["mlps"])


@pytest.mark.parametrize("name", SEEDED)
def test_hidden_words(name: str) -> None:
    found = [knockout(model(name), CLEAN_BATCH, metric) for metric in METRICS]
    same(torch.stack(found), expected(name)["knockouts"])


@pytest.mark.parametrize("name", SEEDED)
def test_the_logit_lens(name: str) -> None:
    same(logit_lens(model(name), CLEAN_BATCH)[:, [3, -1]], expected(name)["lens"])
