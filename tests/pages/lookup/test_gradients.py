"""The derivatives of every number on the way from a query to its result."""

import pytest
import torch

from attnviz.pages.lookup.dictionary import EXACT, SOFTNESS, Dictionary, look_up, lookup_gradient, lookup_mechanism
from attnviz.pages.lookup.gradients import lookup_gradients
from attnviz.scores import Additive, Cosine, Dot, General, ScaledDot

ANIMALS = Dictionary.parse("1.5,0.5,5,cat;0.4,1.5,2,hen;-1.4,0.7,0,snake")
W = torch.tensor([[0.2, -1.0], [1.0, 0.2]], dtype=torch.float64)
SCORES = [ScaledDot(), Dot(), General(W), Additive(seed=3), Cosine()]
BETWEEN = (1.2, 0.9)


@pytest.mark.parametrize("score", SCORES, ids=lambda score: type(score).__name__)
@pytest.mark.parametrize("softness", SOFTNESS)
def test_gradients_stage_by_stage_are_those_of_the_whole(softness: str, score) -> None:
    mechanism = lookup_mechanism(softness, score)
    gradients = lookup_gradients(ANIMALS, BETWEEN, mechanism)
    assert gradients.query == pytest.approx(lookup_gradient(ANIMALS, BETWEEN, mechanism), abs=1e-12)
    result = look_up(ANIMALS, BETWEEN, mechanism)
    assert gradients.values == result.weights
    assert gradients.weights == tuple(ANIMALS.values.tolist())
    columns = zip(*gradients.paths, strict=True)
    assert gradients.similarities == pytest.approx([sum(column) for column in columns])


@pytest.mark.parametrize("score", SCORES, ids=lambda score: type(score).__name__)
def test_gradients_of_keys_agree_with_finite_differences(score) -> None:
    mechanism, step = lookup_mechanism("T = 0.3", score), 1e-5
    gradients = lookup_gradients(ANIMALS, BETWEEN, mechanism)
    for i, entry in enumerate(ANIMALS.entries):
        for axis, name in enumerate("xy"):
            results = []
            for side in (-step, step):
                entries = list(ANIMALS.entries)
                entries[i] = type(entry)(**{**vars(entry), name: getattr(entry, name) + side})
                results.append(look_up(Dictionary(tuple(entries)), BETWEEN, mechanism).result)
            slope = (results[1] - results[0]) / (2 * step)
            assert gradients.keys[i][axis] == pytest.approx(slope, rel=1e-4, abs=1e-6)


def test_gradients_stop_where_a_choice_is_hard() -> None:
    none = ((0.0, 0.0),) * 3
    hard = lookup_gradients(ANIMALS, BETWEEN, lookup_mechanism("hard", Dot()))
    assert hard.similarities == (0, 0, 0)
    assert hard.keys == none
    exact = lookup_gradients(ANIMALS, (1.5, 0.5), lookup_mechanism(EXACT, Dot()))
    assert exact.similarities == (5, 2, 0)  # the weights are the similarities
    assert exact.keys == none
    assert exact.values == (1, 0, 0)
