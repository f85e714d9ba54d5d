"""The derivatives of a looked-up result, stage by stage, as backpropagation computes them."""

from dataclasses import dataclass

import torch
from torch.autograd.functional import jacobian

from attnviz.mechanism import Mechanism
from attnviz.pages.lookup.dictionary import Dictionary, Point


@dataclass(frozen=True)
class LookupGradients:
    """The derivative of the result with respect to every number that it is computed from; keys are in the order of the
    entries.

    `paths[i][j]` is what weight i passes on to similarity j: ∂result/∂weight i · ∂weight i/∂similarity j.
    """

    query: Point
    keys: tuple[Point, ...]
    similarities: tuple[float, ...]
    paths: tuple[tuple[float, ...], ...]
    weights: tuple[float, ...]
    values: tuple[float, ...]


def lookup_gradients(dictionary: Dictionary, query: Point, mechanism: Mechanism) -> LookupGradients:
    """Returns the derivatives of the result of one query, by autograd.

    Where a stage does not change when its input moves a little, the derivatives before it are 0.

    Example:
        >>> from attnviz.scores import Dot
        >>> table = Dictionary.parse("1,0,4,cat;0,1,2,hen")
        >>> gradients = lookup_gradients(table, (0.0, 0.0), Mechanism(score=Dot()))
        >>> gradients.values, gradients.query
        ((0.5, 0.5), (0.5, -0.5))
    """
    inputs = dictionary.inputs(torch.tensor([query], dtype=torch.float64))
    position, keys, values = (one[0].detach().requires_grad_() for one in (inputs.query, inputs.key, inputs.value))
    raw = mechanism.score(position, keys)[0]
    similarities = raw.detach().requires_grad_()
    weights = mechanism.normalizer(similarities).detach().requires_grad_()
    from_weights, from_values = torch.autograd.grad((weights @ values).sum(), (weights, values))
    slopes = jacobian(mechanism.normalizer, similarities.detach())
    paths = from_weights[:, None] * slopes
    from_similarities = paths.sum(0)
    from_query, from_keys = torch.zeros_like(position), torch.zeros_like(keys)
    if raw.requires_grad:
        from_query, from_keys = torch.autograd.grad(raw, (position, keys), from_similarities)
    return LookupGradients(
        query=_point(from_query[0]),
        keys=tuple(map(_point, from_keys)),
        similarities=tuple(from_similarities.tolist()),
        paths=tuple(map(tuple, paths.tolist())),
        weights=tuple(from_weights.tolist()),
        values=tuple(from_values[:, 0].tolist()),
    )


def _point(vector: torch.Tensor) -> Point:
    return vector[0].item() + 0.0, vector[1].item() + 0.0
