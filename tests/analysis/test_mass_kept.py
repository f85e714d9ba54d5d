"""Mass kept under sparse masks, against whole matrices in double precision."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnviz import Inputs, Mechanism
from attnviz.analysis.engines import Local
from attnviz.analysis.mass_kept import dense_head, mass_kept, mass_kept_by_head
from attnviz.biases import ALiBi, SSMax
from attnviz.layer import Kind, Layer, LayerId
from attnviz.masks import (
    Band,
    Causal,
    Documents,
    Full,
    Grid,
    Padding,
    SinksAndWindow,
    SlidingWindow,
    Strided,
    parse,
)
from attnviz.normalizers import Differential, Sigmoid, Sink, Softmax, SoftmaxPlusOne, Sparsemax

MASKS = [
    Full(),
    Causal(),
    SlidingWindow(7),
    SinksAndWindow(2, 5),
    Strided(3),
    Band(4),
    Padding(11),
    Padding(0),
    parse("q % 5 == k % 3"),
    Documents((9, 20)),
]


def inputs_of(queries, keys, heads=2, kv_heads=1, seed=0):
    generator = torch.Generator().manual_seed(seed)
    shapes = (heads, queries, 6), (kv_heads, keys, 6), (kv_heads, keys, 3)
    tensors = (2 * torch.randn(shape, generator=generator) for shape in shapes)
    return Inputs(*tensors, tuple(map(str, range(queries))), tuple(map(str, range(keys))))


def softmax_shares(inputs, own, sparse, head, temperature=1.0):
    """The shares of a scaled dot product and softmax, in double precision, from the whole matrix."""
    query, key = inputs.query[head].double(), inputs.key[head // (inputs.heads // len(inputs.key))].double()
    sizes = inputs.queries, inputs.keys
    scores = (query @ key.T / math.sqrt(query.shape[1]) / temperature).masked_fill(~own.matrix(*sizes), -math.inf)
    kept = scores.softmax(-1).masked_fill(~sparse.matrix(*sizes), 0).sum(-1)
    return kept.masked_fill(scores.isneginf().all(-1), math.nan).float()


def same(ours, expected):
    torch.testing.assert_close(ours, expected, equal_nan=True, rtol=0, atol=1e-5)


@pytest.mark.parametrize("sparse", MASKS, ids=str)
@pytest.mark.parametrize("own", [Full(), Causal(), Padding(30), Padding(0)], ids=str)
def test_a_softmax_keeps_its_weights_on_keys_that_both_masks_allow(own, sparse):
    for queries, keys in [(40, 40), (33, 50), *([(700, 600)] if own == Causal() else [])]:
        inputs = inputs_of(queries, keys)
        for head in range(2):
            kept = mass_kept(inputs, Mechanism(mask=own), sparse, head)
            assert kept.queries.tolist() == list(range(queries))
            same(kept.share, softmax_shares(inputs, own, sparse, head))


@pytest.mark.parametrize(
    "normalizer",
    [Softmax(0.25), Softmax(3.0), SoftmaxPlusOne(), Sink(5.0), Sink(torch.tensor([9.0, -2.0]))],
    ids=["sharp", "flat", "plus one", "sink", "a sink for each head"],
)
def test_a_sink_is_no_key_and_a_temperature_counts(normalizer):
    inputs, sparse = inputs_of(40, 40), SlidingWindow(6)
    for head in range(2):
        kept = mass_kept(inputs, Mechanism(mask=Causal(), normalizer=normalizer), sparse, head)
        same(kept.share, softmax_shares(inputs, Causal(), sparse, head, getattr(normalizer, "temperature", 1.0)))


@pytest.mark.parametrize(
    "mechanism",
    [
        Mechanism(mask=Causal(), normalizer=Sparsemax()),
        Mechanism(mask=Causal(), normalizer=Sigmoid()),
        Mechanism(biases=(ALiBi(),), mask=Causal()),
        Mechanism(biases=(SSMax(),), mask=Causal()),
    ],
    ids=["sparsemax", "sigmoid", "alibi", "ssmax"],
)
@pytest.mark.parametrize("sample", [None, 9])
def test_other_normalizers_and_biases_keep_what_their_dense_weights_say(mechanism, sample):
    inputs, sparse = inputs_of(40, 40), SinksAndWindow(1, 4)
    kept = mass_kept(inputs, mechanism, sparse, 1, sample=sample)
    weights = mechanism(inputs, heads=[1]).weights[0].double()
    expected = weights.masked_fill(~sparse.matrix(40, 40), 0).sum(1) / weights.sum(1)
    same(kept.share, expected.float()[kept.queries])


@settings(max_examples=25)
@given(st.integers(1, 60), st.integers(1, 60), st.integers(1, 70), st.integers(0, 99))
def test_a_sample_has_the_shares_of_the_whole_at_its_queries(queries, keys, sample, seed):
    inputs, mechanism, sparse = inputs_of(queries, keys, seed=seed), Mechanism(mask=Causal()), Strided(3)
    whole, some = (mass_kept(inputs, mechanism, sparse, sample=count) for count in (None, sample))
    assert len(some.queries) == min(sample, queries)
    assert some.queries.unique().equal(some.queries)
    same(some.share, whole.share[some.queries])


@settings(max_examples=25)
@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 99))
def test_more_keys_keep_more_mass_and_all_keys_keep_all(queries, keys, seed):
    inputs = inputs_of(queries, keys, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    few = torch.rand(queries, keys, generator=generator) < 0.3
    more = few | (torch.rand(queries, keys, generator=generator) < 0.3)
    dense = dense_head(inputs, Mechanism(mask=Causal("bottom right")))
    small, large, rest, whole = (dense.kept(mask).share for mask in (*map(Grid.from_array, (few, more, ~few)), Full()))
    has_mass = ~whole.isnan()
    assert (whole[has_mass] == 1).all()
    assert (small <= large + 1e-6)[has_mass].all()
    same((small + rest)[has_mass], whole[has_mass])


def test_queries_that_lose_most_come_first_without_those_that_lose_none():
    inputs = inputs_of(30, 30)
    kept = mass_kept(inputs, Mechanism(mask=Causal()), SlidingWindow(3))
    lost = kept.lowest(100)
    assert {query for query, _ in lost} <= set(range(3, 30))
    assert [share for _, share in lost] == sorted((share for _, share in lost), reverse=True)
    assert dict(lost) == pytest.approx({q: 1 - float(kept.share[q]) for q, _ in lost})
    assert kept.lowest(2) == lost[:2]
    assert mass_kept(inputs, Mechanism(mask=Padding(0)), Full()).lowest(3) == []


def test_heads_of_several_layers_are_means_over_queries():
    layers = [
        Layer(LayerId("encoder", i), Kind.SELF, inputs_of(20, 20, heads, seed=i), Mechanism(mask=Causal()))
        for i, heads in enumerate((2, 3))
    ]
    shares: list[float] = []
    means = mass_kept_by_head(layers, Band(1), progress=lambda share, _: shares.append(share))
    assert means.shape == (2, 3)
    assert means[0, 2].isnan()
    for i, layer in enumerate(layers):
        for head in range(layer.inputs.heads):
            expected = softmax_shares(layer.inputs, Causal(), Band(1), head).mean()
            assert float(means[i, head]) == pytest.approx(float(expected), abs=1e-5)
    assert shares == pytest.approx([0.2, 0.4, 0.6, 0.8, 1])


def test_progress_reaches_the_end_and_an_engine_changes_nothing():
    inputs, mechanism = inputs_of(3000, 3000, heads=1), Mechanism(mask=Causal())
    shares: list[float] = []
    kept = mass_kept(inputs, mechanism, Strided(9), progress=shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == 1
    assert mass_kept(inputs, mechanism, Strided(9), engine=Local(2)).share.equal(kept.share)


def test_negative_weights_have_no_share():
    inputs = inputs_of(4, 4)
    with pytest.raises(ValueError, match="negative weights"):
        mass_kept(inputs, Mechanism(normalizer=Differential()), Causal())


def test_a_mask_of_another_size_is_refused():
    with pytest.raises(ValueError, match="3 × 3"):
        mass_kept(inputs_of(4, 4), Mechanism(), Grid.from_array(torch.ones(3, 3)))
