"""The heads that do mainly one thing, against sums over the model's own weights."""

import numpy as np
import pytest
import torch

from attnviz.analysis.head_metrics import HeadMetricTable
from attnviz.analysis.strongest_heads import ROLES, SEEDS, StrongHead, metrics_on_random_tokens, strongest_heads
from attnviz.models.minilm import minilm
from attnviz.models.random_tokens import repeated_random_tokens


def own_shares(ids: list[int], weights: np.ndarray) -> dict[str, float]:
    """The shares of one head on one text, pair by pair; `weights` are (queries, keys)."""
    kinds = {
        "Previous token": lambda q, k: k == q - 1,
        "Next token": lambda q, k: k == q + 1,
        "Itself": lambda q, k: k == q,
        "First token": lambda q, k: k == 0,
        "Same token before": lambda q, k: k < q and ids[k] == ids[q],
        "Induction": lambda q, k: 0 < k < q and ids[k - 1] == ids[q],
    }
    shares = {}
    for name, is_one in kinds.items():
        rows = [
            (sum(weights[q, k] for k in range(len(ids)) if is_one(q, k)), weights[q].sum())
            for q in range(len(ids))
            if any(is_one(q, k) for k in range(len(ids)))
        ]
        shares[name] = sum(part for part, _ in rows) / sum(whole for _, whole in rows)
    return shares


def test_shares_on_random_tokens_are_those_of_the_models_own_weights() -> None:
    model, table = minilm(), metrics_on_random_tokens(minilm())
    expected = []
    for seed in SEEDS:
        batch, *_ = repeated_random_tokens(model.text_inputs, seed, decoder=False)
        with torch.no_grad(), model.lock:
            own = model.model(**batch, output_attentions=True).attentions
        expected.append([own_shares(batch["input_ids"][0].tolist(), own[i][0, head].numpy()) for i, head in CHECKED])
    for place, (i, head) in enumerate(CHECKED):
        row = np.flatnonzero((table.layers == i) & (table.heads == head))[0]
        for metric in ROLES:
            mean = np.mean([one[place][metric.name] for one in expected])
            assert table.values[metric.name][row] == pytest.approx(mean, abs=1e-5)


CHECKED = [(0, 2), (1, 8), (3, 1), (5, 11)]  # layers and heads


def test_the_largest_shares_come_first_and_small_and_undefined_ones_do_not() -> None:
    shares = np.array([0.6, np.nan, 0.9, 0.49, 0.5])
    none = np.full(5, np.nan)
    values = {metric.name: none for metric in ROLES} | {"Induction": shares}
    table = HeadMetricTable(np.array([0, 0, 1, 1, 2]), np.array([0, 1, 0, 1, 0]), values, {})
    found = strongest_heads(table)
    assert found["Induction"] == (StrongHead(1, 0, 0.9), StrongHead(0, 0, 0.6), StrongHead(2, 0, 0.5))
    assert not any(heads for name, heads in found.items() if name != "Induction")
    assert [one.share for one in strongest_heads(table, least=0.55)["Induction"]] == [0.9, 0.6]
