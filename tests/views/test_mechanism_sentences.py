"""Sentences about a mechanism name its parts in the order in which they act."""

import pytest
import torch

from attnviz.biases import ALiBi, Bias, Distances, SoftCap
from attnviz.masks import Causal
from attnviz.normalizers import Sink, Softmax
from attnviz.opaque_parts import CellTable, ModelBias
from attnviz.scores import ScaledDot
from attnviz.views.mechanism_sentences import bias_phrase, describe_parts, part_name

DISTANCES = Distances(torch.linspace(-2, 3, 4 * 11).reshape(4, 11), 5)
TABLE = ModelBias(CellTable(torch.linspace(-1, 1, 4 * 5 * 7).reshape(1, 4, 5, 7), 5, 7))


@pytest.mark.parametrize(
    ("bias", "words"),
    [
        (SoftCap(50.0), "squeezed between −50 and 50 (soft cap)"),
        (DISTANCES, "plus the model’s number for the distance from query to key"),
        (TABLE, "plus the model’s number for the pair of query and key"),
        (ALiBi(), "changed by ALiBi"),
    ],
)
def test_a_bias_is_what_happens_to_the_score(bias: Bias, words: str) -> None:
    assert bias_phrase(bias) == words


def test_biases_stand_between_the_score_and_the_mask() -> None:
    assert describe_parts(ScaledDot(0.0625), (SoftCap(20.0), ALiBi()), Causal(), Softmax(2.0)) == (
        "Scores: Scaled dot with scale 0.0625, squeezed between −20 and 20 (soft cap), changed by ALiBi. "
        "A query sees itself and all keys before it. Weights: Softmax with temperature 2."
    )
    assert describe_parts(None, (), None, Softmax()) == "Weights: Softmax."


def test_numbers_that_a_model_has_learned_for_each_head_are_omitted() -> None:
    assert part_name(Sink(torch.zeros(4))) == "Sink"
    assert part_name(Sink(2.0)) == "Sink with logit 2"
