"""The reason for dividing by √d, against theory."""

import math

import pytest
import torch

from attnviz.normalizers import Softmax
from attnviz.pages.steps.scaling import KEYS, QUERIES, WIDTHS, Scaling, jacobian_norm, measure_scaling


@pytest.fixture(scope="module")
def found() -> Scaling:
    return measure_scaling()


def test_the_variance_of_dot_products_is_d_and_of_scaled_ones_1(found: Scaling) -> None:
    """Within 4 standard errors. Of a query q the products are normal with variance |q|², whose own variance is 2d;
    so the mean of their squares has variance 2d / QUERIES + 2 (d² + 2d) / (QUERIES · KEYS)."""
    for i, d in enumerate(WIDTHS):
        error = math.sqrt(2 * d / QUERIES + 2 * (d**2 + 2 * d) / (QUERIES * KEYS))
        assert float(found.variance[0, i]) == pytest.approx(d, abs=4 * error)
        assert float(found.variance[1, i]) == pytest.approx(1, abs=4 * error / d)
        assert 4 * error / d < 0.25


def test_scaling_keeps_the_softmax_from_peaks_and_lost_gradients(found: Scaling) -> None:
    greatest, gradient = found.greatest.tolist(), found.gradient.tolist()
    assert greatest[0] == sorted(greatest[0])
    assert greatest[0][-1] > 0.9
    assert gradient[0][-1] < gradient[0][0] / 4
    assert gradient[0][3:] == sorted(gradient[0][3:], reverse=True)
    for line in (greatest[1], gradient[1]):
        assert max(line) < 1.1 * min(line)


def test_the_norm_by_autograd_is_the_exact_one() -> None:
    scores = torch.randn(50, 7, dtype=torch.float64) * 3
    exact = []
    for row in scores:
        a = torch.softmax(row, -1)
        jacobian = torch.diag(a) - torch.outer(a, a)
        exact.append(torch.linalg.matrix_norm(jacobian))
    torch.testing.assert_close(jacobian_norm(Softmax(), scores), torch.stack(exact))


def test_a_seed_gives_the_same_numbers_again_and_another_one_others() -> None:
    first, again, other = (measure_scaling((2, 4), seed) for seed in (0, 0, 1))
    assert torch.equal(first.variance, again.variance)
    assert not torch.equal(first.variance, other.variance)
