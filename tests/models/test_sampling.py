"""The choice of a token: what may be drawn, and how often."""

from collections import Counter

import numpy as np
import pytest
import torch

from attnviz.models.sampling import Sampler, drawn_index

SCORES = torch.tensor([[1.0, 3.0, 2.5, -1.0, 2.0, 0.0]])
IDS = torch.tensor([[0]])


def expected(scores, temperature, top_k, top_p):
    """The probabilities, by a loop: the temperature, then the largest k, then the fewest that reach p."""
    logits = np.array(scores, dtype=np.float64) / temperature
    order = sorted(range(len(logits)), key=lambda i: -logits[i])
    kept = order[:top_k] if top_k else order
    share = np.exp(logits[kept]) / np.exp(logits[kept]).sum()
    count, total = 0, 0.0
    while total < top_p and count < len(kept):
        total += share[count]
        count += 1
    result = np.zeros(len(logits))
    result[kept[:count]] = share[:count] / share[:count].sum()
    return result


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"), [(1.0, 0, 1.0), (0.5, 0, 1.0), (1.0, 3, 1.0), (1.0, 0, 0.7), (2.0, 4, 0.8)]
)
def test_tokens_are_drawn_as_often_as_they_are_probable(temperature, top_k, top_p):
    sampler = Sampler(temperature, top_k, top_p, seed=1)
    counts = Counter(sampler.choose(IDS, SCORES, position) for position in range(4000))
    probabilities = expected(SCORES[0].tolist(), temperature, top_k, top_p)
    assert {*counts} == {*np.flatnonzero(probabilities).tolist()}
    for token, probability in enumerate(probabilities):
        assert counts[token] / 4000 == pytest.approx(probability, abs=0.03)


def test_a_draw_follows_from_the_seed_and_the_position():
    draws = [[Sampler(1.0, 0, 1.0, seed).choose(IDS, SCORES, position) for position in range(40)] for seed in range(3)]
    assert draws == [
        [Sampler(1.0, 0, 1.0, seed).choose(IDS, SCORES, position) for position in range(40)] for seed in range(3)
    ]
    assert draws[0][1:] != draws[1][:-1]
    assert draws[0] != draws[1] != draws[2]


def test_the_likeliest_token_is_chosen_at_temperature_0():
    assert {Sampler(0.0, 2, 0.1, seed).choose(IDS, SCORES, seed) for seed in range(9)} == {1}


def test_the_end_of_the_line_belongs_to_the_least_likely():
    assert drawn_index(torch.tensor([0.5, 0.2, 0.3]), 0.99999999) == 1
    assert drawn_index(torch.tensor([0.5, 0.2, 0.3]), 0.0) == 0
