"""How the scores of one query become weights."""

import math
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor


class Normalizer:
    """Scores to weights along the last axis, the keys; a score of −∞ is not allowed and gets weight 0.

    A row with nothing allowed gets weights of zero, as in torch's `scaled_dot_product_attention`.
    """

    def __call__(self, scores: Float[Tensor, "*batch keys"]) -> Float[Tensor, "*batch keys"]:
        raise NotImplementedError


@dataclass(frozen=True)
class Softmax(Normalizer):
    """Each weight is exp(score / temperature), divided by the sum of all: positive, and adding up to 1.

    A low temperature sharpens the row towards its greatest score, a high one flattens it.
    """

    temperature: float = field(default=1.0, metadata={"min": 0.01, "max": 100.0, "step": 0.1})

    def __post_init__(self) -> None:
        if not 0 < self.temperature < math.inf:
            raise ValueError(f"Softmax needs a finite temperature above 0; it got {self.temperature}.")

    def __call__(self, scores: Float[Tensor, "*batch keys"]) -> Float[Tensor, "*batch keys"]:
        greatest = scores.detach().amax(-1, keepdim=True)
        empty = greatest.isneginf()
        some_empty = bool(empty.any())
        if some_empty:  # filled before the softmax as well as after it, so that no NaN reaches the gradient
            scores, greatest = scores.masked_fill(empty, 0), greatest.masked_fill(empty, 0)
        if self.temperature != 1:  # the greatest becomes 0, so that no temperature is too low
            scores = (scores - greatest) / self.temperature
        weights = torch.softmax(scores, dim=-1)
        return weights.masked_fill(empty, 0) if some_empty else weights


@dataclass(frozen=True)
class Hard(Normalizer):
    """All weight on the greatest score, as a dictionary looks up one entry; ties share it.

    The limit of softmax as the temperature goes to 0. It has no gradient.
    """

    def __call__(self, scores: Float[Tensor, "*batch keys"]) -> Float[Tensor, "*batch keys"]:
        greatest = (scores == scores.amax(-1, keepdim=True)) & ~scores.isneginf()
        return greatest.to(scores.dtype) / greatest.sum(-1, keepdim=True).clamp(min=1)


@dataclass(frozen=True)
class Uniform(Normalizer):
    """The same weight on every key that is allowed, whatever the scores.

    The limit of softmax as the temperature goes to infinity.
    """

    def __call__(self, scores: Float[Tensor, "*batch keys"]) -> Float[Tensor, "*batch keys"]:
        allowed = ~scores.isneginf()
        return allowed.to(scores.dtype) / allowed.sum(-1, keepdim=True).clamp(min=1)


@dataclass(frozen=True)
class Identity(Normalizer):
    """The scores themselves as weights, for weights that someone else has finished."""

    def __call__(self, scores: Float[Tensor, "*batch keys"]) -> Float[Tensor, "*batch keys"]:
        return scores.masked_fill(scores.isneginf(), 0)


NORMALIZERS = (Softmax, Hard, Uniform)  # Identity is for finished weights alone and stands in no menu
