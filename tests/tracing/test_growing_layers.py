"""What a mask says about the keys of a new query."""

import pytest
import torch
from torch import nn

from attnviz.masks import Causal, Full, Padding, SlidingWindow
from attnviz.tracing.call import Call
from attnviz.tracing.growing_layers import keys_of_last_query, resized

LEAST = torch.finfo(torch.float32).min


def call(keys, mask):
    vectors = torch.zeros(1, 2, keys, 4)
    return Call(nn.Identity(), vectors[:, :, :1], vectors, vectors, mask)


@pytest.mark.parametrize(
    ("mask", "allowed"),
    [
        (None, [True, True, True]),
        (torch.tensor([True, False, True]), [True, False, True]),
        (torch.tensor([0.0, LEAST, 0.0]), [True, False, True]),
        (torch.tensor([0.0, -10_000.0, 0.0]), [True, False, True]),
        (torch.tensor([0.0, -2.0, 0.0]), None),
        (torch.tensor([0.0, 0.0, LEAST, LEAST, LEAST]), [False, False, False]),  # of more keys than there are
    ],
)
def test_a_row_of_a_mask_says_which_keys_are_allowed(mask, allowed):
    found = keys_of_last_query(call(3, None if mask is None else mask[None, None, None]), 3)
    assert found is allowed is None or found.tolist() == allowed


def test_keys_that_a_cache_has_dropped_are_the_oldest():
    assert keys_of_last_query(call(2, None), 5).tolist() == [False, False, False, True, True]
    assert keys_of_last_query(call(6, None), 5) is None


@pytest.mark.parametrize(
    ("mask", "keys", "expected"),
    [
        (Causal(), 4, Causal()),
        (Padding((False, True)), 4, Padding((False, True, True, True))),
        (Causal() & Padding((False, True, True)), 2, Causal() & Padding((False, True))),
        (
            SlidingWindow(2) & Padding((False, True)) | Full(),
            3,
            SlidingWindow(2) & Padding((False, True, True)) | Full(),
        ),
    ],
)
def test_padding_is_that_of_the_prompt_and_later_keys_are_real(mask, keys, expected):
    assert resized(mask, keys) == expected
