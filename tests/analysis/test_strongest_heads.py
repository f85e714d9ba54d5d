"""The heads that do mainly one thing, against sums over the model's own weights."""

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
import torch

from attnviz.analysis.head_metrics import HeadMetricTable
from attnviz.analysis.strongest_heads import ROLES, SEEDS, StrongHead, metrics_on_random_tokens, strongest_heads
from attnviz.models.minilm import minilm
from attnviz.models.model import LoadedModel
from attnviz.models.random_tokens import repeated_random_tokens
from attnviz.models.smollm2 import smollm2


def own_shares(ids: list[int], weights: np.ndarray) -> dict[str, float]:
    """The shares of one head on one text, pair by pair, of queries that have two keys or more; `weights` are (queries,
    keys)."""
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
            if any(is_one(q, k) for k in range(len(ids))) and (weights[q] > 0).sum() > 1
        ]
        shares[name] = sum(part for part, _ in rows) / sum(whole for _, whole in rows)
    return shares


@pytest.fixture
def eager() -> Iterator[LoadedModel]:
    """SmolLM2, which computes its attention itself, so that it gives its weights."""
    model = smollm2()
    with model.lock:
        before = model.model.config._attn_implementation
        model.model.set_attn_implementation("eager")
        yield model
        model.model.set_attn_implementation(before)


def check_shares(model: LoadedModel, table: HeadMetricTable, places: Sequence[tuple[int, int]]) -> None:
    """Compares the shares of heads, by layer and head, with those of the model's own weights."""
    expected: dict[tuple[int, int], list[dict[str, float]]] = {place: [] for place in places}
    for seed in SEEDS:
        batch, *_ = repeated_random_tokens(model.text_inputs, seed, decoder=False)
        with torch.no_grad():
            own = model.model(**batch, output_attentions=True).attentions
        for layer, head in places:
            expected[layer, head].append(own_shares(batch["input_ids"][0].tolist(), own[layer][0, head].numpy()))
    for (layer, head), shares in expected.items():
        row = np.flatnonzero((table.layers == layer) & (table.heads == head))[0]
        for metric in ROLES:
            mean = np.mean([one[metric.name] for one in shares])
            assert table.values[metric.name][row] == pytest.approx(mean, abs=1e-5)


def test_shares_on_random_tokens_are_those_of_the_models_own_weights() -> None:
    model = minilm()
    with model.lock:
        check_shares(model, metrics_on_random_tokens(model), [(0, 2), (5, 11)])


def test_induction_and_previous_token_heads_of_smollm2_are_found(eager: LoadedModel) -> None:
    table = metrics_on_random_tokens(eager)
    found = {name: [(one.layer, one.head) for one in heads] for name, heads in strongest_heads(table).items()}
    assert found["Induction"][:2] == [(18, 6), (17, 3)]
    assert found["Previous token"][:2] == [(16, 0), (11, 1)]
    check_shares(eager, table, [(18, 6), (16, 0)])


def test_the_largest_shares_come_first_and_small_and_undefined_ones_do_not() -> None:
    shares = np.array([0.6, np.nan, 0.9, 0.49, 0.5])
    none = np.full(5, np.nan)
    values = {metric.name: none for metric in ROLES} | {"Induction": shares}
    table = HeadMetricTable(np.array([0, 0, 1, 1, 2]), np.array([0, 1, 0, 1, 0]), values, {})
    found = strongest_heads(table)
    assert found["Induction"] == (StrongHead(1, 0, 0.9), StrongHead(0, 0, 0.6), StrongHead(2, 0, 0.5))
    assert not any(heads for name, heads in found.items() if name != "Induction")
    assert [one.share for one in strongest_heads(table, least=0.55)["Induction"]] == [0.9, 0.6]
