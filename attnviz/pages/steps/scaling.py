"""Why dot products are divided by √d_k: their variance, and its effect on a softmax and its gradient."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from attnviz.normalizers import Softmax
from attnviz.scores import Dot, ScaledDot

WIDTHS = (2, 4, 8, 16, 32, 64, 128, 256, 512)
QUERIES, KEYS = 512, 16


@dataclass(frozen=True, eq=False)
class Scaling:
    """Measurements of dot products of random vectors, for each width; plain and divided by √d."""

    widths: tuple[int, ...]
    variance: Float[Tensor, "2 widths"]  # in theory d, and 1
    greatest: Float[Tensor, "2 widths"]  # weight of a row, on average; 1 / KEYS would be even
    gradient: Float[Tensor, "2 widths"]  # norm of the softmax's Jacobian, on average


def measure_scaling(widths: Sequence[int] = WIDTHS, seed: int = 0) -> Scaling:
    """Measures dot products of QUERIES random queries with KEYS random keys each, for each width.

    Their numbers have mean 0 and variance 1. A dot product adds up d products of mean 0 and variance 1, so its
    variance is d (Vaswani et al. 2017, footnote 4).

    Example:
        >>> plain, scaled = measure_scaling([64]).variance[:, 0].tolist()
        >>> round(plain / scaled)
        64
    """
    generator = torch.Generator().manual_seed(seed)
    rows = []
    for width in widths:
        query = torch.randn(QUERIES, 1, width, generator=generator)
        key = torch.randn(QUERIES, KEYS, width, generator=generator)
        rows.append([_measure(score(query, key)[:, 0]) for score in (Dot(), ScaledDot())])
    variance, greatest, gradient = torch.tensor(rows).permute(2, 1, 0)
    return Scaling(tuple(widths), variance, greatest, gradient)


def jacobian_norm(normalizer: Callable[[Tensor], Tensor], scores: Float[Tensor, "rows keys"]) -> Float[Tensor, " rows"]:
    """Returns the Frobenius norm of ∂weights/∂scores of each row, by autograd."""
    scores = scores.detach().requires_grad_()
    weights = normalizer(scores)
    # Rows do not see each other, so that one backward pass gives a row of every Jacobian.
    rows = [torch.autograd.grad(one.sum(), scores, retain_graph=True)[0] for one in weights.unbind(-1)]
    return torch.stack(rows).square().sum((0, -1)).sqrt()


def _measure(scores: Float[Tensor, "rows keys"]) -> tuple[float, float, float]:
    weights = Softmax()(scores)
    gradient = jacobian_norm(Softmax(), scores)
    return float(scores.var()), float(weights.amax(-1).mean()), float(gradient.mean())
