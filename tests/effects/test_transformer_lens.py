"""Effects in three seeded models are those that TransformerLens 4.3 finds; `make oracles` writes its numbers."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from attnviz.effects import KL, LogitDifference, Loss, ablations, knockout, logit_lens, mlp_ablations, patch
from tests.support.seeded_models import CORRUPTED, IDS, OTHER, SEEDED, TEXTS, TOKEN, seeded_model

DIFFERENCE = LogitDifference(TOKEN, OTHER)
METRICS = DIFFERENCE, Loss(), KL()
CLEAN_BATCH, CORRUPTED_BATCH = {"input_ids": IDS}, {"input_ids": CORRUPTED}
OTHERS = {"zero": None, "mean": [{"input_ids": text} for text in TEXTS], "resample": [CORRUPTED_BATCH]}
BY_HEAD = ("output", "query", "key", "value", "pattern")


@cache
def expected(name: str) -> Any:
    return json.loads((Path(__file__).parent / "transformer_lens.json").read_text())[name]


@cache
def model(name: str) -> Any:
    return seeded_model(name)


def same(found: Tensor, numbers: Any) -> None:
    torch.testing.assert_close(found.double(), torch.tensor(numbers, dtype=torch.float64), atol=1e-4, rtol=0)


def same_patches(found: Tensor, name: str, what: str) -> None:
    """Compares what patches recover: their metric, as a share of the way from the corrupted run to the clean one."""
    clean, corrupted = expected(name)["clean"], expected(name)["corrupted"]
    same(corrupted + found * (clean - corrupted), expected(name)["patches"][what])


@pytest.mark.parametrize("how", OTHERS)
@pytest.mark.parametrize("name", SEEDED)
def test_ablated_heads(name: str, how: Any) -> None:
    found = [ablations(model(name), CLEAN_BATCH, metric, how=how, texts=OTHERS[how]) for metric in METRICS]
    same(torch.stack(found), expected(name)[how])


@pytest.mark.parametrize("name", SEEDED)
def test_ablated_mlps(name: str) -> None:
    found = [mlp_ablations(model(name), CLEAN_BATCH, metric) for metric in METRICS]
    same(torch.stack(found), expected(name)["mlps"])


@pytest.mark.parametrize("what", BY_HEAD)
@pytest.mark.parametrize("name", SEEDED)
def test_patched_heads(name: str, what: Any) -> None:
    same_patches(patch(model(name), CLEAN_BATCH, CORRUPTED_BATCH, DIFFERENCE, what).recovered, name, what)


@pytest.mark.parametrize("what", ["mlp", "residual"])
@pytest.mark.parametrize("name", SEEDED)
def test_patched_positions(name: str, what: Any) -> None:
    same_patches(patch(model(name), CLEAN_BATCH, CORRUPTED_BATCH, DIFFERENCE, what).recovered, name, what)


@pytest.mark.parametrize("name", SEEDED)
def test_hidden_words(name: str) -> None:
    found = [knockout(model(name), CLEAN_BATCH, metric) for metric in METRICS]
    same(torch.stack(found), expected(name)["knockouts"])


@pytest.mark.parametrize("name", SEEDED)
def test_the_logit_lens(name: str) -> None:
    same(logit_lens(model(name), CLEAN_BATCH)[:, [3, -1]], expected(name)["lens"])
