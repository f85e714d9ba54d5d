"""The choice of a token: what may be drawn, and how often."""

from collections import Counter

import pytest
import torch

from attnviz.models.sampling import Sampler, drawn_index

SCORES = torch.tensor([[1.0, 3.0, 2.5, -1.0, 2.0, 0.0]])


def test_tokens_are_drawn_as_often_as_they_are_probable():
    sampler = Sampler(1.0, seed=1)
    counts = Counter(sampler.choose(SCORES, position) for position in range(4000))
    for token, probability in enumerate(SCORES[0].softmax(-1).tolist()):
        assert counts[token] / 4000 == pytest.approx(probability, abs=0.03)


def test_a_draw_follows_from_the_seed_and_the_position():
    draws = [[Sampler(1.0, 0, 1.0, seed).choose(SCORES, position) for position in range(40)] for seed in range(3)]
    assert draws == [
        [Sampler(1.0, 0, 1.0, seed).choose(SCORES, position) for position in range(40)] for seed in range(3)
    ]
    assert draws[0][1:] != draws[1][:-1]
    assert draws[0] != draws[1] != draws[2]


def test_the_likeliest_token_is_chosen_at_temperature_0():
    assert {Sampler(0.0, 2, 0.1, seed).choose(SCORES, seed) for seed in range(9)} == {1}


def test_the_end_of_the_line_belongs_to_the_least_likely():
    assert drawn_index(torch.tensor([0.5, 0.2, 0.3]), 0.99999999) == 1
    assert drawn_index(torch.tensor([0.5, 0.2, 0.3]), 0.0) == 0
