import math
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from attnviz import Mechanism
from attnviz.analysis.head_maps import (
    Aggregate,
    RowSummary,
    Special,
    aggregate_maps,
    empty_rows,
    head_map,
    hidden_mass,
    row_summary,
    shown_positions,
    strongest_keys,
)
from attnviz.inputs import Inputs
from attnviz.masks import Causal, Full, Mask, Padding
from attnviz.normalizers import Differential, Hard, Softmax
from attnviz.scores import ScaledDot

NAN = math.nan
SPECIAL_QUERIES, SPECIAL_KEYS = (0, 4), (0, 2, 6)


@dataclass(frozen=True)
class PerHead(Mask):
    """Head 0 sees key 0, head 1 sees keys 0 and 1, …"""

    def __call__(self, b, h, q, k):
        return (k <= h) & (q >= 0)


@pytest.fixture
def inputs(random_inputs):
    return random_inputs(heads=3, special_queries=SPECIAL_QUERIES, special_keys=SPECIAL_KEYS)


def same(ours, expected):
    torch.testing.assert_close(ours, torch.as_tensor(expected, dtype=torch.float32), equal_nan=True)


def slow_map(inputs, mechanism, head, special):
    """One head's weights, a cell at a time."""
    attention, rows = mechanism(inputs), []
    for q in range(inputs.queries):
        if special != Special.SHOWN and q in SPECIAL_QUERIES:
            continue
        weights = attention.weights[head, q].tolist()
        looked_at = [k for k in range(inputs.keys) if special == Special.SHOWN or k not in SPECIAL_KEYS]
        total, rest = sum(weights), sum(weights[k] for k in looked_at)
        factor = total / rest if special == Special.RESCALED and rest > 0 else 1
        rows.append([weights[k] * factor if attention.allowed[head, q, k] else NAN for k in looked_at])
    return rows


@pytest.mark.parametrize("special", Special)
@pytest.mark.parametrize("mask", [Full(), Causal(), Causal("bottom right"), Padding(1), PerHead()], ids=repr)
def test_a_map_of_one_head(inputs, special, mask):
    for head in range(inputs.heads):
        same(
            head_map(inputs, Mechanism(mask=mask), head, special), slow_map(inputs, Mechanism(mask=mask), head, special)
        )


def test_a_row_that_lay_on_special_tokens_alone_stays_zero(inputs):
    hard = Mechanism(ScaledDot(50.0), normalizer=Hard())
    rescaled = head_map(inputs, hard, 0, Special.RESCALED)
    on_special = [int(hard(inputs).weights[0, q].argmax()) in SPECIAL_KEYS for q in (1, 2, 3)]
    assert any(on_special)
    assert not all(on_special)
    same(rescaled.sum(-1), [0 if special else 1 for special in on_special])


@pytest.mark.parametrize("special", Special)
@pytest.mark.parametrize(
    ("how", "together"),
    list(zip(Aggregate, (lambda cells: sum(cells) / len(cells), max, min), strict=True)),
)
@pytest.mark.parametrize("mask", [Full(), Causal(), PerHead()], ids=repr)
def test_a_map_of_all_heads(inputs, special, how, together, mask):
    mechanism = Mechanism(mask=mask)
    maps = [slow_map(inputs, mechanism, head, special) for head in range(3)]
    expected = [
        [NAN if all(map(math.isnan, cells)) else together([0 if math.isnan(c) else c for c in cells]) for cells in rows]
        for rows in (zip(*heads, strict=True) for heads in zip(*maps, strict=True))
    ]
    same(head_map(inputs, mechanism, how, special), expected)


@pytest.mark.parametrize("special", Special)
@pytest.mark.parametrize("rows", [slice(0, 3), slice(2, None), slice(-1, None), slice(0, 1)], ids=str)
def test_a_part_of_a_map_is_what_the_whole_has_there(inputs, special, rows):
    whole = head_map(inputs, Mechanism(mask=Causal()), 1, special)
    inside = [i for i, q in enumerate(shown_positions(inputs.queries, SPECIAL_QUERIES, special)) if q in range(5)[rows]]
    part = head_map(inputs, Mechanism(mask=Causal()), 1, special, rows)
    assert torch.equal(part.nan_to_num(9), whole[inside].nan_to_num(9))


def test_maps_are_taken_together_one_after_the_other():
    maps = [torch.tensor([[1.0, NAN, NAN]]), torch.tensor([[0.5, -0.5, NAN]])]
    same(aggregate_maps(iter(maps), Aggregate.MEAN), [[0.75, -0.25, NAN]])
    same(aggregate_maps(iter(maps), Aggregate.MAXIMUM), [[1.0, 0.0, NAN]])
    same(aggregate_maps(iter(maps), Aggregate.MINIMUM), [[0.5, -0.5, NAN]])
    same(aggregate_maps(iter(maps[:1]), Aggregate.MEAN), maps[0])


def test_of_many_equal_ones_the_earlier_are_the_strongest():
    assert [key for key, _ in strongest_keys(torch.full((300,), 1 / 300))] == list(range(5))
    assert [key for key, _ in strongest_keys(torch.full((300,), 1 / 300), 20)] == list(range(20))


@given(st.lists(st.floats(0, 1, width=32) | st.just(NAN), min_size=1, max_size=12), st.integers(1, 12))
def test_strongest_as_sorted(weights, count):
    seen = [(key, weight) for key, weight in enumerate(weights) if not math.isnan(weight)]
    assert strongest_keys(torch.tensor(weights), count) == sorted(seen, key=lambda one: -one[1])[:count]


def test_outside_leaves_out_queries_that_may_look_at_nothing():
    assert hidden_mass(torch.tensor([[0.75, 0.0], [NAN, NAN]])) == pytest.approx(0.25)


def test_outside_is_the_weight_of_hidden_tokens(inputs):
    weights = Mechanism()(inputs).weights[1]
    hidden = [sum(float(weights[q, k]) for k in SPECIAL_KEYS) for q in (1, 2, 3)]
    assert hidden_mass(head_map(inputs, Mechanism(), 1, Special.HIDDEN)) == pytest.approx(sum(hidden) / 3, abs=1e-6)


def test_empty_rows():
    assert empty_rows(torch.tensor([[NAN, NAN], [NAN, 0.0], [NAN, NAN], [0.5, 0.5]])) == [0, 2]
    assert empty_rows(torch.zeros(2, 2)) == []


def test_rescaling_a_row_that_is_almost_all_on_special_tokens_is_finite():
    """At a low temperature what remains is less than float32 can divide by."""
    query, key = torch.tensor([[[1.0], [1.0]]]), torch.tensor([[[0.0], [-0.95]]])
    inputs = Inputs(query, key, torch.ones(1, 2, 1), ("a", "b"), ("[CLS]", "b"), (), (0,))
    weights = head_map(inputs, Mechanism(normalizer=Softmax(0.01)), 0, Special.RESCALED)
    assert 0 < float(head_map(inputs, Mechanism(normalizer=Softmax(0.01)), 0, Special.HIDDEN).max()) < 1e-38
    torch.testing.assert_close(weights, torch.ones(2, 1))


@pytest.mark.parametrize("count", [1, 2, 8])
def test_equal_weights_are_as_spread_as_there_are_keys(count):
    one = row_summary(torch.full((count,), 1 / count))
    assert one.keys == pytest.approx(count)
    assert one.nonzero == count
    assert one.total == pytest.approx(1)


@given(arrays("f4", st.integers(1, 9), elements=st.floats(0, 1, width=32)))
def test_the_spread_of_a_row_is_shannons_entropy_of_its_shares(weights):
    one = row_summary(torch.from_numpy(weights))
    total = weights.astype("f8").sum()
    share = weights.astype("f8") / total if total else weights
    slow = -sum(p * math.log2(p) for p in share if p > 0) if total else None
    assert one.entropy == (None if slow is None else pytest.approx(slow, abs=1e-9))
    assert one.total == pytest.approx(float(total))


def test_negative_weights_have_no_entropy_and_masked_ones_do_not_count():
    one = row_summary(torch.tensor([0.5, -0.25, math.nan, 0.0]))
    assert one == RowSummary(total=0.25, nonzero=2, allowed=3, entropy=None, negative=True)
    assert one.keys is None


def test_the_maximum_of_heads_that_are_all_negative_is_negative(random_inputs):
    inputs = random_inputs(heads=3)
    mechanism = Mechanism(normalizer=Differential(1.0))
    expected = mechanism(inputs).weights.amax(0)
    assert (expected < 0).any()
    assert torch.equal(head_map(inputs, mechanism, Aggregate.MAXIMUM), expected)


def test_negative_weights_are_not_rescaled(random_inputs):
    inputs = random_inputs(special_keys=(0,))
    mechanism = Mechanism(normalizer=Differential(1.0))
    assert torch.equal(head_map(inputs, mechanism, 0, Special.RESCALED), head_map(inputs, mechanism, 0, Special.HIDDEN))
