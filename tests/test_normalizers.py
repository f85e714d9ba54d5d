import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnviz.normalizers import NORMALIZERS, Hard, Identity, Softmax, Uniform

ROWS = st.lists(st.lists(st.floats(-100, 100, width=32) | st.just(-math.inf), min_size=4, max_size=4), min_size=1)


@pytest.mark.parametrize("temperature", [0.01, 0.5, 1.0, 3.0, 100.0])
def test_softmax_as_torch_in_float64(temperature):
    scores = torch.randn(2, 3, 9)
    scores[..., 4] = -torch.inf
    expected = torch.softmax(scores.double() / temperature, dim=-1)
    torch.testing.assert_close(Softmax(temperature)(scores).double(), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("normalizer", [*(cls() for cls in NORMALIZERS), Softmax(0.01), Softmax(100.0)], ids=repr)
@given(rows=ROWS)
def test_rows_add_up_to_1_over_what_is_allowed_alone(normalizer, rows):
    weights = normalizer(torch.tensor(rows))
    for row, given_scores in zip(weights.tolist(), rows, strict=True):
        allowed = [score > -math.inf for score in given_scores]
        assert sum(row) == pytest.approx(1 if any(allowed) else 0, abs=1e-6)
        assert all(0 <= weight <= 1 if ok else weight == 0 for weight, ok in zip(row, allowed, strict=True))


@given(rows=ROWS)
def test_hard_is_the_limit_of_a_small_temperature_and_uniform_of_a_large_one(rows):
    scores = torch.tensor(rows).round()  # whole numbers: what differs, differs by 1 or more
    torch.testing.assert_close(Softmax(0.01)(scores), Hard()(scores))
    torch.testing.assert_close(Softmax(1e7)(scores), Uniform()(scores), atol=1e-4, rtol=0)


def test_hard_shares_among_ties():
    scores = torch.tensor([[1.0, 3.0, 3.0, 2.0], [0.0, -torch.inf, 0.0, 0.0], [-5.0, -torch.inf, -6.0, -torch.inf]])
    expected = torch.tensor([[0, 1 / 2, 1 / 2, 0], [1 / 3, 0, 1 / 3, 1 / 3], [1, 0, 0, 0]])
    torch.testing.assert_close(Hard()(scores), expected)


def test_uniform_looks_at_what_is_allowed_alone():
    scores = torch.tensor([[1e6, -torch.inf, -1e6, 0.0], [-torch.inf, 7.0, -torch.inf, -torch.inf]])
    torch.testing.assert_close(Uniform()(scores), torch.tensor([[1 / 3, 0, 1 / 3, 1 / 3], [0, 1, 0, 0]]))


def test_identity_gives_back_finished_weights():
    scores = torch.tensor([[0.25, -torch.inf, 0.75], [-torch.inf] * 3])
    assert Identity()(scores).tolist() == [[0.25, 0, 0.75], [0, 0, 0]]


@pytest.mark.parametrize("normalizer", [Softmax(), Softmax(0.1), Identity()], ids=repr)
def test_no_nan_reaches_the_gradient_from_a_row_with_nothing_allowed(normalizer):
    scores = torch.tensor([[1.0, 2.0], [-torch.inf, -torch.inf]], requires_grad=True)
    (normalizer(scores) * torch.tensor([1.0, 3.0])).sum().backward()
    assert scores.grad.isfinite().all()
    assert scores.grad[0].abs().min() > 0
    assert scores.grad[1].tolist() == [0, 0]


@pytest.mark.parametrize("temperature", [0.0, -1.0, math.nan])
def test_a_temperature_that_is_not_above_0_is_refused(temperature):
    with pytest.raises(ValueError, match=rf"Softmax needs a finite temperature above 0; it got {temperature}\."):
        Softmax(temperature)


def test_an_endless_temperature_is_refused_or_is_uniform():
    scores = torch.tensor([[1.0, 2.0, -torch.inf]])
    try:
        normalizer = Softmax(math.inf)
    except ValueError:
        return
    torch.testing.assert_close(normalizer(scores), Uniform()(scores))
