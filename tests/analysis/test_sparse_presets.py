"""Sparse masks at equal cost, against counts of whole matrices."""

import numpy as np
import pytest
import torch

from attnviz import Inputs, Mechanism
from attnviz.analysis import sparse_presets as module
from attnviz.analysis.head_maps import head_map
from attnviz.analysis.mass_kept import dense_head, mass_kept
from attnviz.analysis.sparse_presets import LAST_QUERIES, block_masses, line_order, sparse_presets
from attnviz.masks import Causal, Full, Grid, SlidingWindow, VerticalSlash

CAUSAL_NAMES = {"Sliding window", "StreamingLLM", "A-shape", "Vertical-slash"}


def inputs_of(n, seed=0, scale=2.0):
    generator = torch.Generator().manual_seed(seed)
    tensors = (scale * torch.randn(2, n, 8, generator=generator) for _ in range(3))
    return Inputs(*tensors, tuple(map(str, range(n))), tuple(map(str, range(n))))


def with_lines(n, columns, slash):
    """A head that attends to some columns, and some positions back."""
    scores = torch.zeros(n, n)
    scores[:, columns] = 8
    scores[torch.arange(slash, n), torch.arange(n - slash)] = 9
    query = torch.eye(n)
    key = scores.T * n**0.5
    return Inputs(query[None], key[None], torch.ones(1, n, 1), tuple(map(str, range(n))), tuple(map(str, range(n))))


@pytest.mark.parametrize("own", [Causal(), Full(), SlidingWindow(40)], ids=str)
@pytest.mark.parametrize("budget", [0.1, 0.3, 0.8])
@pytest.mark.parametrize("n", [20, 150])
def test_each_pattern_is_within_the_budget_and_one_size_more_is_not(own, budget, n):
    dense = dense_head(inputs_of(n), Mechanism(mask=own), 1)
    presets = sparse_presets(dense, budget)
    allowed = own.matrix(n, n)
    for preset in presets:
        both = allowed & preset.mask.matrix(n, n)
        assert preset.cost.pairs == int(both.sum()) <= budget * int(allowed.sum())
        padded = torch.nn.functional.pad(both, (0, -n % 64, 0, -n % 64))
        assert preset.cost.blocks[0] == int(padded.unflatten(0, (-1, 64)).unflatten(2, (-1, 64)).any(3).any(1).sum())
        assert preset.kept.mean == pytest.approx(mass_kept(dense.inputs, dense.mechanism, preset.mask, 1).mean)
    means = [preset.kept.mean for preset in presets]
    assert means == sorted(means, reverse=True)
    window = next((one.mask for one in presets if one.name == "Sliding window"), None)
    if own == Causal() and window is not None:
        larger = SlidingWindow(window.size + 1).matrix(n, n)
        assert int((allowed & larger).sum()) > budget * int(allowed.sum())


def test_all_patterns_of_a_causal_head_are_there():
    dense = dense_head(inputs_of(150), Mechanism(mask=Causal()))
    names = {preset.name for preset in sparse_presets(dense, 0.4)}
    assert names == CAUSAL_NAMES | {"Block-sparse top-k, blocks of 8"}
    assert sparse_presets(dense, 0.0) == []


def test_lines_are_those_that_the_last_queries_attend_to():
    inputs, mechanism = with_lines(200, [17, 90], 33), Mechanism(mask=Causal())
    columns, slashes = line_order(inputs, mechanism)
    assert set(columns[:2]) == {17, 90}
    assert slashes[:2] == [0, 33]
    assert sorted(columns) == list(range(200))
    assert len(set(slashes)) == len(slashes)
    weights = mechanism(inputs).weights[0, -LAST_QUERIES:].double()
    sums = [float(weights[:, column].sum()) for column in columns]
    assert sums == pytest.approx(sorted(sums, reverse=True))


def test_a_head_of_lines_is_kept_by_vertical_slash_and_not_by_a_window():
    dense = dense_head(with_lines(200, [17, 90], 33), Mechanism(mask=Causal()))
    presets = {preset.name: preset for preset in sparse_presets(dense, 0.1)}
    assert presets["Vertical-slash"].kept.mean > presets["Sliding window"].kept.mean + 0.3
    assert {17, 90} <= set(presets["Vertical-slash"].mask.columns)
    assert 33 in presets["Vertical-slash"].mask.slashes


def test_lines_of_a_head_that_looks_ahead_are_on_both_sides():
    inputs = inputs_of(80)
    _, slashes = line_order(inputs, Mechanism())
    assert min(slashes) < 0 < max(slashes)


@pytest.mark.parametrize(("n", "block"), [(40, 8), (37, 8), (37, 5)])
def test_masses_of_blocks_are_sums_of_weights(n, block):
    inputs, mechanism = inputs_of(n), Mechanism(mask=Causal())
    weights = head_map(inputs, mechanism, 1).nan_to_num(0).double()
    count = -(-n // block)
    padded = torch.nn.functional.pad(weights, (0, count * block - n, 0, count * block - n))
    expected = padded.view(count, block, count, block).sum((1, 3)) / block
    torch.testing.assert_close(block_masses(inputs, mechanism, 1, block).double(), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("n", [64, 100, 333])
def test_closed_forms_of_long_inputs_count_what_the_rule_counts(n, monkeypatch):
    generator = np.random.default_rng(n)
    lines = VerticalSlash(
        tuple(generator.integers(0, n + 9, 12).tolist()), tuple(generator.integers(-5, n + 9, 12).tolist())
    )
    blocks = Grid.from_array(generator.random((-(-n // 32), -(-n // 32))) < 0.4, 32)
    patterns = module._Patterns(dense_head(inputs_of(n), Mechanism(mask=Causal()), sample=2))
    counted = [patterns.cost(mask) for mask in (lines, blocks)]
    monkeypatch.setattr(module, "LONG", 1)
    assert [patterns.cost(mask) for mask in (lines, blocks)] == counted
    assert [patterns.pairs(mask) for mask in (lines, blocks)] == [one.pairs for one in counted]
    large = Grid.from_array(generator.random((-(-n // 128), -(-n // 128))) < 0.6, 128)
    closed = patterns.cost(large)
    monkeypatch.undo()
    assert patterns.cost(large) == closed


def test_patterns_of_long_inputs_are_within_the_budget(monkeypatch):
    monkeypatch.setattr(module, "LONG", 100)
    dense = dense_head(inputs_of(300), Mechanism(mask=Causal()), sample=20)
    shares: list[float] = []
    presets = sparse_presets(dense, 0.3, lambda share, _: shares.append(share))
    assert {preset.name for preset in presets} >= CAUSAL_NAMES
    assert all(preset.cost.pairs <= 0.3 * 300 * 301 / 2 for preset in presets)
    assert shares == [i / len(shares) for i in range(len(shares))]
