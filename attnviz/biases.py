"""What position, or anything else, adds to or does to a score."""

import math
from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor


class Bias:
    """A change of scores that may look at positions: FlexAttention's `score_mod`.

    b, h, q and k are the positions of batch, head, query and key, as whole-number tensors that
    broadcast against the scores.
    """

    def __call__(
        self,
        scores: Float[Tensor, "*scores"],
        b: Int[Tensor, "*#scores"],
        h: Int[Tensor, "*#scores"],
        q: Int[Tensor, "*#scores"],
        k: Int[Tensor, "*#scores"],
    ) -> Float[Tensor, "*scores"]:
        raise NotImplementedError


@dataclass(frozen=True)
class SoftCap(Bias):
    """Squeezes every score between −cap and cap: cap · tanh(score / cap), before the mask.

    Gemma 2 (Gemma Team 2024), where cap is 50.
    """

    cap: float = field(default=50.0, metadata={"min": 0.1, "max": 1000.0})

    def __post_init__(self) -> None:
        if not 0 < self.cap < math.inf:
            raise ValueError(f"SoftCap needs a finite cap above 0; it got {self.cap}.")

    def __call__(
        self,
        scores: Float[Tensor, "*scores"],
        b: Int[Tensor, "*#scores"],
        h: Int[Tensor, "*#scores"],
        q: Int[Tensor, "*#scores"],
        k: Int[Tensor, "*#scores"],
    ) -> Float[Tensor, "*scores"]:
        return torch.tanh(scores / self.cap) * self.cap


BIASES = (SoftCap,)
