import re

import numpy as np
import pytest
import torch
from torch import ones

from attnviz import Inputs, Mechanism
from attnviz.inputs import LARGEST, cut_heads
from attnviz.scores import Dot

GOOD = {
    "query": ones(2, 3, 4),
    "key": ones(2, 5, 4),
    "value": ones(2, 5, 6),
    "query_tokens": tuple("abc"),
    "key_tokens": tuple("vwxyz"),
}


def test_counts():
    inputs = Inputs(**GOOD)
    assert (inputs.heads, inputs.queries, inputs.keys) == (2, 3, 5)


@pytest.mark.usefixtures("as_installed")
@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"query": ones(3, 4)}, "query must have 3 axes (heads, tokens, width); it has shape (3, 4)."),
        ({"value": ones(1, 2, 5, 6)}, "value must have 3 axes (heads, tokens, width); it has shape (1, 2, 5, 6)."),
        ({"key": ones(2, 0, 4)}, "key is empty: its shape is (2, 0, 4)."),
        ({"query": ones(2, 3, 0)}, "query is empty: its shape is (2, 3, 0)."),
        ({"value": ones(2, 4, 6)}, "key has 2 heads of 5 tokens, value has 2 heads of 4 tokens."),
        ({"value": ones(1, 5, 6)}, "key has 2 heads of 5 tokens, value has 1 heads of 5 tokens."),
        ({"query": ones(3, 3, 4)}, "3 query heads cannot share 2 key heads evenly."),
        ({"query": ones(1, 3, 4)}, "1 query heads cannot share 2 key heads evenly."),
        ({"query_tokens": tuple("ab")}, "query_tokens must name 3 tokens; it names 2."),
        ({"key_tokens": tuple("uvwxyz")}, "key_tokens must name 5 tokens; it names 6."),
        ({"key_ids": (7, 8)}, "key_ids must hold 5 ids or none; it holds 2."),
    ],
)
def test_what_does_not_fit_is_refused_in_words(wrong, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        Inputs(**(GOOD | wrong))


@pytest.mark.parametrize("name", ["query", "key", "value"])
@pytest.mark.parametrize("number", [torch.nan, torch.inf, -torch.inf, 1.1e12, -1.1e12])
def test_numbers_that_cannot_be_computed_with_are_refused(name, number):
    array = GOOD[name].clone()
    array[-1, -1, -1] = number
    with pytest.raises(ValueError, match=rf"{name} holds numbers that are not finite, or larger than 1e\+12"):
        Inputs(**(GOOD | {name: array}))


@pytest.mark.parametrize("number", [LARGEST, -LARGEST])
def test_the_largest_numbers_allowed_give_finite_attention(number):
    largest = {name: torch.full_like(GOOD[name], number) for name in ("query", "key", "value")}
    attention = Mechanism(score=Dot())(Inputs(**(GOOD | largest)))
    assert attention.raw.isfinite().all()
    torch.testing.assert_close(attention.weights, torch.full((2, 3, 5), 1 / 5))


@pytest.mark.parametrize(("heads", "kv_heads"), [(1, 1), (4, 4), (4, 2), (6, 2), (6, 3), (5, 1)])
def test_query_heads_share_key_heads_as_repeat_interleave_lays_them_out(random_inputs, heads, kv_heads):
    inputs = random_inputs(heads=heads, kv_heads=kv_heads)
    repeated = torch.arange(kv_heads).repeat_interleave(heads // kv_heads)
    assert [inputs.kv_head(head) for head in range(heads)] == repeated.tolist()


@pytest.mark.parametrize("heads", [1, 2, 3, 4, 6, 12])
def test_cut_heads_as_multihead_attention_does(heads):
    vectors = torch.randn(5, 12)
    # torch.nn.functional.multi_head_attention_forward, for a batch of one
    expected = vectors[:, None].view(5, heads, 12 // heads).transpose(0, 1)
    cut = cut_heads(vectors, heads)
    assert torch.equal(cut, expected)
    assert cut.is_contiguous()


@pytest.mark.parametrize("heads", [0, -1, 5, 24])
def test_heads_that_do_not_divide_the_width_are_refused_with_those_that_do(heads):
    sentence = f"Vectors of width 12 cannot be cut into {heads} equal heads. Choose one of 1, 2, 3, 4, 6, 12."
    with pytest.raises(ValueError, match=re.escape(sentence)):
        cut_heads(ones(5, 12), heads)


def test_the_heads_that_divide_a_width_are_named_up_to_64():
    with pytest.raises(ValueError, match=re.escape("Choose one of 1, 2, 5, 10, 13, 26.")):
        cut_heads(ones(5, 130), 3)


def test_inputs_are_equal_only_to_themselves():
    inputs = Inputs(**GOOD)
    assert inputs == inputs
    assert inputs != Inputs(**GOOD)


@pytest.mark.parametrize(
    ("key", "words"),
    [
        (np.ones((1, 2, 3)), "key must be a torch tensor; it is a ndarray"),
        (torch.ones(1, 2, 3, dtype=torch.int64), "key must hold real numbers, such as float32; it holds torch.int64"),
        (torch.ones(1, 2, 3, dtype=torch.float64), "must be of one type"),
    ],
)
@pytest.mark.usefixtures("as_installed")
def test_what_is_no_tensor_of_one_real_type_is_refused(key, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        Inputs(torch.ones(1, 2, 3), key, torch.ones(1, 2, 3), ("a", "b"), ("a", "b"))


def test_the_repr_is_one_line_with_shapes():
    inputs = Inputs(torch.zeros(4, 3, 8), *torch.zeros(2, 2, 3, 8), tuple("abc"), tuple("abc"))
    assert repr(inputs) == "Inputs(query 4 × 3 × 8, key 2 × 3 × 8, value 2 × 3 × 8)"
