"""What a part of a model computes is recognized by its numbers."""

import torch
from torch import nn

from attnviz.pages.transformer.module_calls import ModuleCall
from attnviz.pages.transformer.recognition import Recognition


def test_maps_are_found_in_any_order() -> None:
    torch.manual_seed(0)
    vectors = torch.randn(5, 8)
    query, key, value = (nn.Linear(8, heads * 4).requires_grad_(False) for heads in (3, 1, 1))
    made = [linear(vectors).unflatten(-1, (-1, 4)).transpose(0, 1) for linear in (query, key, value)]
    calls = [ModuleCall("", linear, "linear", vectors, linear(vectors)) for linear in (key, value, query)]
    known = Recognition(1e-5).projections(calls, [], made)
    assert known is not None
    assert [one.module for one, _norm in known] == [query, key, value]
    assert Recognition(1e-5).projections(calls, [], [*made[:2], made[2] + 1]) is None
