"""The choice of a token by its score: the likeliest one, or one that is drawn."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from attnviz.base.formatting import grouped
from attnviz.base.language import value_error


@dataclass(frozen=True)
class Sampler:
    """How a token is chosen: the likeliest at temperature 0, else by transformers' warpers and a random number that
    the seed and the position give."""

    temperature: float = 0.0
    top_k: int = 0  # the number of the likeliest tokens from which it is drawn; 0: all
    top_p: float = 1.0  # the share of the probability that the tokens have from which it is drawn
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.temperature <= 100:
            raise value_error("temperature must be from 0 to 100; it is {value}.", value=self.temperature)
        if not 0 < self.top_p <= 1:
            raise value_error("top_p must be above 0 and at most 1; it is {value}.", value=self.top_p)
        check_count("top_k", self.top_k, 0, 1 << 31)
        check_count("seed", self.seed, 0, (1 << 63) - 1)

    @property
    def options(self) -> dict[str, Any]:
        """The options of `generate` for the scores from which a token is chosen."""
        if self.temperature == 0:
            return {"do_sample": False}
        return {"do_sample": True, "temperature": float(self.temperature), "top_k": self.top_k, "top_p": self.top_p}

    def choose(self, scores: Float[Tensor, "1 choices"], position: int) -> int:
        """Returns the token at a position for scores that `generate` has divided and limited."""
        if self.temperature == 0:
            return int(scores.argmax())
        seed = (self.seed * 0x9E3779B1 + position) % (1 << 63)  # not that of the next position with the next seed
        return drawn_index(scores[0].softmax(-1), random_number(seed))


def random_number(seed: int) -> float:
    """Returns the random number of a seed, from 0 to below 1."""
    return float(torch.rand((), generator=torch.Generator().manual_seed(seed)))


def drawn_index(probabilities: Float[Tensor, " choices"], number: float) -> int:
    """Returns the index into whose part of the line from 0 to 1 a number falls; likelier ones come first.

    Example:
        >>> probabilities = torch.tensor([0.25, 0.75])
        >>> drawn_index(probabilities, 0.7), drawn_index(probabilities, 0.8)
        (1, 0)
    """
    order = probabilities.argsort(descending=True, stable=True)
    ends = probabilities[order].double().cumsum(-1)
    place = int(torch.searchsorted(ends, number * float(ends[-1]), right=True))
    return int(order[min(place, len(order) - 1)])


def check_count(name: str, value: int, least: int, most: int) -> None:
    """Raises ValueError if a value is not a whole number in this range."""
    if not isinstance(value, int) or not least <= value <= most:
        raise value_error(
            "{name} must be a whole number from {least} to {most}; it is {value}.",
            name=name,
            least=least,
            most=grouped(most),
            value=value,
        )
