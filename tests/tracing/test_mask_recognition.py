"""Masks that a model computes, recognized as masks of the catalogue; biases, as numbers of distances."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import masking_utils as rules

from attnviz.biases import Distances
from attnviz.masks import Band, Causal, Chunked, Full, Mask, Padding, PrefixLM, SlidingWindow
from attnviz.tracing.lazy_mask import ALWAYS, lazy_mask
from attnviz.tracing.mask_recognition import recognize_mask
from attnviz.tracing.mechanism_builder import _distance_table

LENGTHS = st.integers(1, 12)


cells = Mask.matrix


def recognized(allowed):
    return recognize_mask(lambda first, last: allowed[first:last], *allowed.shape)


PLAIN = [Full(), Causal(), SlidingWindow(4), Chunked(5), Band(3), PrefixLM(4), Padding(9)]
LEFT = Padding((False,) * 3 + (True,) * 9)
PADDED = [mask & Padding(9) for mask in (Causal(), SlidingWindow(4), Chunked(5), Band(3))]


@pytest.mark.parametrize("mask", [*PLAIN, *PADDED, Causal() & LEFT, Band(3) & LEFT], ids=str)
@pytest.mark.parametrize("length", [12, 1100], ids=["short", "several blocks of rows"])
def test_masks_of_models_are_recognized_by_their_cells(mask, length):
    if length > 12 and "keys=(" in repr(mask):
        mask = mask.left & Padding((False,) * 3 + (True,) * (length - 3))
    assert recognized(cells(mask, length, length)) == mask


def test_a_mask_of_one_token():
    assert recognized(torch.ones(1, 1, dtype=torch.bool)) == Causal()


@given(LENGTHS, LENGTHS, st.integers(0, 2**31))
def test_what_is_recognized_allows_exactly_the_same(queries, keys, seed):
    allowed = torch.rand(queries, keys, generator=torch.Generator().manual_seed(seed)) < 0.8
    mask = recognized(allowed)
    if mask is not None:
        assert torch.equal(cells(mask, queries, keys), allowed)


def test_one_cell_that_differs_is_seen():
    allowed = cells(Causal(), 1100, 1100).clone()
    allowed[700, 300] = False
    assert recognized(allowed) is None


def test_no_token_is_seen():
    assert recognized(torch.zeros(3, 5, dtype=torch.bool)) == Causal() & Padding(0)


# Masks that a model asks for


@pytest.mark.parametrize(
    "rule",
    [rules.causal_mask_function, rules.sliding_window_causal_mask_function(3), rules.bidirectional_mask_function],
)
@pytest.mark.parametrize("padding", [None, torch.tensor([[1, 1, 1, 1, 0], [0, 0, 1, 1, 1]]).bool()])
def test_a_lazy_mask_is_what_transformers_would_have_made(rule, padding):
    arguments = {"batch_size": 2, "q_length": 5, "kv_length": 5, "mask_function": rule, "attention_mask": padding}
    for make, number_type in ((rules.eager_mask, torch.float32), (rules.sdpa_mask, torch.bool)):
        lazy, own = lazy_mask(make, **arguments, dtype=number_type, keep=True), make(**arguments, **ALWAYS)
        assert lazy.dtype == own.dtype == number_type
        assert torch.equal(lazy.rows(0, 5), own)
        assert torch.equal(lazy.rows(2, 4), own[:, :, 2:4])
        assert torch.equal(lazy.clone(), own)  # what a model computes with it
        assert torch.equal(lazy[:, :, 1:, :-1] * 2, own[:, :, 1:, :-1] * 2)
        assert torch.equal(torch.cat([lazy, lazy], dim=-1), torch.cat([own, own], dim=-1))
        assert lazy[:, :, :, :5].rows(0, 5).shape == own.shape  # cut to the length that it has, it stays what it is
        assert lazy.as_it_is() is lazy


def test_a_lazy_mask_that_a_model_changes_in_place_is_changed():
    arguments = {"batch_size": 2, "q_length": 5, "kv_length": 5, "mask_function": rules.causal_mask_function}
    lazy, own = lazy_mask(rules.eager_mask, **arguments), rules.eager_mask(**arguments)
    lazy[:, :, 1:3][:, :, 0, 2] = 1
    lazy.mul_(0.5)
    own[:, :, 1, 2] = 1
    assert torch.equal(lazy.as_it_is(), own * 0.5)
    assert torch.equal(lazy.alias().as_it_is(), own * 0.5)


def test_a_lazy_mask_is_left_out_where_transformers_leaves_it_out():
    arguments = {"batch_size": 1, "q_length": 5, "kv_length": 5, "mask_function": rules.bidirectional_mask_function}
    padding, causal = torch.tensor([[True, True, True, True, False]]), {"mask_function": rules.causal_mask_function}
    for more in ({"allow_is_bidirectional_skip": True}, causal, {"attention_mask": padding}, causal | {"q_offset": 5}):
        for make in (rules.eager_mask, rules.sdpa_mask):
            own = make(**arguments | more)
            assert (lazy_mask(make, **arguments | more) is None) == (own is None)
            assert lazy_mask(make, **arguments | more, keep=True) is not None


# Biases


@given(LENGTHS, LENGTHS, st.integers(1, 3))
def test_what_depends_on_the_distance_alone_is_kept_as_one_number_each(queries, keys, heads):
    numbers = torch.randn(heads, queries + keys - 1)
    bias = torch.stack([numbers[:, queries - 1 - q : queries - 1 - q + keys] for q in range(queries)], dim=1)
    found = _distance_table(bias)
    assert torch.equal(found, numbers)
    made = Distances(found, queries).bind(queries, keys, heads)
    zero, h = torch.tensor(0), torch.arange(heads)[:, None, None]
    q, k = torch.arange(queries)[:, None], torch.arange(keys)
    assert torch.equal(made(torch.zeros(heads, queries, keys), zero, h, q, k), bias)


def test_one_number_that_depends_on_more_is_seen():
    bias = torch.zeros(2, 600, 600)
    bias[1, 599, 0] = 1
    bias[1, 598, 1] = 2
    assert _distance_table(bias) is None


def test_distances_of_another_example_are_refused_in_words():
    bias = Distances(torch.zeros(2, 9), 5)
    with pytest.raises(ValueError, match="made for 2 heads, 5 queries and 5 keys; here there are 2, 4 and 5"):
        bias.bind(4, 5, 2)
    with pytest.raises(ValueError, match="its table has 9 for 10 queries"):
        Distances(torch.zeros(2, 9), 10)


def test_distances_are_known_by_their_numbers():
    assert Distances(torch.zeros(2, 9), 5) == Distances(torch.zeros(2, 9), 5)
    assert Distances(torch.zeros(2, 9), 5) != Distances(torch.ones(2, 9), 5)
