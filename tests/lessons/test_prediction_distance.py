"""The distance between a prediction and the answer, against slow loops and a property or two."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from attnviz.lessons.prediction_distance import is_predictable, normalized, overlaps, shares, total_variation

WEIGHTS = st.lists(st.floats(0, 1e6), min_size=4, max_size=4).map(np.array).filter(np.any)


def slow(prediction, answer) -> float:
    """The largest advantage that any set of keys has under one of the two: total variation, as it is defined."""
    prediction, answer = ([float(x) / math.fsum(map(float, row)) for x in row] for row in (prediction, answer))
    sets = range(2 ** len(prediction))
    return max(
        math.fsum((prediction[i] - answer[i]) * (chosen >> i & 1) for i in range(len(prediction))) for chosen in sets
    )


@given(prediction=WEIGHTS, answer=WEIGHTS)
def test_is_the_largest_advantage_of_any_set_of_keys(prediction, answer):
    assert total_variation(prediction, answer) == pytest.approx(slow(prediction, answer), abs=1e-9)


@given(one=WEIGHTS, other=WEIGHTS, third=WEIGHTS)
def test_is_a_distance(one, other, third):
    assert 0 <= total_variation(one, other) <= 1 + 1e-12
    assert total_variation(one, one) == 0
    assert overlaps(one, other).sum() == pytest.approx(1 - total_variation(one, other))
    assert total_variation(one, other) == total_variation(other, one)
    assert total_variation(one, third) <= total_variation(one, other) + total_variation(other, third) + 1e-12


@given(one=WEIGHTS, other=WEIGHTS)
def test_is_1_for_nothing_in_common_and_not_less(one, other):
    zeros = np.zeros(4)
    assert total_variation(np.concatenate([one, zeros]), np.concatenate([zeros, other])) == pytest.approx(1, abs=1e-12)
    assume(((one > 1e-3) & (other > 1e-3)).any())
    assert total_variation(one, other) < 1


@given(points=st.dictionaries(st.integers(0, 6), st.integers(0, 10), min_size=1))
def test_points_become_shares(points):
    prediction = shares(points, 7)
    total = sum(points.values())
    for key in range(7):
        alike = 1 / len(points) if key in points else 0
        assert prediction[key] == pytest.approx(points.get(key, 0) / total if total else alike)


def test_one_key_is_wrong_by_all_that_the_others_get():
    answer = np.array([0.68, 0.1, np.nan, 0.22])
    assert total_variation(shares({0: 3}, 4), answer) == pytest.approx(0.32)
    assert total_variation(shares({2: 1}, 4), answer) == 1


def test_weights_that_add_up_to_something_else_are_shares_of_it():
    assert total_variation(np.array([0.5, 0.5]), np.array([0.1, 0.3])) == pytest.approx(0.25)
    np.testing.assert_allclose(normalized(np.array([1e-320, 1e-320])), [0.5, 0.5])
    np.testing.assert_allclose(normalized(np.array([1e308, 1e308])), [0.5, 0.5])


@pytest.mark.parametrize("answer", [[0.0, 0.0], [np.nan, np.nan], [1.2, -0.2]])
def test_what_is_no_share_cannot_be_predicted(answer):
    assert not is_predictable(np.array(answer))
    with pytest.raises(ValueError, match="Only shares can be compared"):
        total_variation(np.array([1.0, 0.0]), np.array(answer))


@pytest.mark.parametrize("points", [{}, {0: -1}, {0: math.nan}, {0: math.inf}])
def test_points_that_make_no_prediction_are_refused(points):
    with pytest.raises(ValueError, match="at least one key"):
        shares(points, 3)


def test_other_keys_are_refused(as_installed):
    with pytest.raises(ValueError, match="keys 0 to 2; it has key 3"):
        shares({3: 1}, 3)
    with pytest.raises(ValueError, match="it has 2, and there are 3 weights"):
        total_variation(np.ones(2), np.ones(3))
