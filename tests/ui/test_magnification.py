"""What is said of the two highest scores of a row."""

import math

import pytest
import torch

from attnviz.page.magnification import magnification_sentence


def sentence(*scores: float, temperature: float = 1.0) -> str:
    return magnification_sentence(scores, "abcd", temperature)


def test_positive_scores_are_compared_by_their_ratio() -> None:
    assert sentence(0.5, 2.0, 1.5) == (
        "Softmax magnifies the highest: the score of b is 1.3 times that of c, its weight 1.6 times: "
        "exp(2.00 − 1.50) = 1.6."
    )


def test_scores_that_are_not_positive_are_compared_by_their_difference() -> None:
    text = "the score of a is 1.00 higher than that of b, its weight 7.4 times: exp((−1.00 − (−2.00)) / 0.5) = 7.4."
    assert text in sentence(-1.0, -2.0, temperature=0.5)
    assert "1.50 higher" in sentence(1.0, -0.5)


def test_a_high_temperature_evens_the_scores_out() -> None:
    assert "is so soft here (T = 10) that it evens them out" in sentence(2.0, 1.0, temperature=10.0)


def test_ties_masked_keys_and_large_ratios_are_said() -> None:
    assert sentence(1.0, 1.0, 0.0) == "a and b have the same score, and so the same weight."
    assert sentence(1.0, -math.inf) == "Only one key may be looked at: it gets all the weight."
    assert sentence(9.0, 1.0, temperature=0.03).endswith("its weight more than 1,000 times: exp((9.00 − 1.00) / 0.03).")


@pytest.mark.parametrize("temperature", [0.3, 1.0, 3.0])
def test_the_ratio_is_that_of_the_weights(temperature: float) -> None:
    weights = torch.softmax(torch.tensor([1.7, 0.9]) / temperature, 0)
    assert f"its weight {(weights[0] / weights[1]).item():.1f} times" in sentence(1.7, 0.9, temperature=temperature)
