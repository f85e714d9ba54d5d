"""Masks of direction: all keys, or those before the query."""

from dataclasses import dataclass, field
from typing import Literal

from attnviz.base.language import N_, _, value_error
from attnviz.masks.mask import Array, Mask, Shifted


@dataclass(frozen=True)
class Full(Mask):
    """Every query sees every key, as in an encoder.

    Example:
        >>> Full().matrix(2, 3).long()
        tensor([[1, 1, 1],
                [1, 1, 1]])
    """

    CONDITION = N_("both are there")

    def __call__(self, b: Array, h: Array, q: Array, k: Array) -> Array:
        return q >= 0

    def describe(self) -> str:
        return _("Every query sees every key.")


@dataclass(frozen=True)
class Causal(Mask):
    """Each query sees its own position and what came before, as in a decoder: k ≤ q.

    With fewer queries than keys there are two conventions. "top left" counts both from the first
    (torch's `is_causal`); "bottom right" lets the last query see the last key, k ≤ q + keys − queries
    (FlashAttention, torch's `causal_lower_right`).

    Example:
        >>> Causal("bottom right").matrix(2, 3).long()
        tensor([[1, 1, 0],
                [1, 1, 1]])
    """

    align: Literal["top left", "bottom right"] = field(default="top left", metadata={"label": "Alignment"})

    def bind(self, queries: int, keys: int, heads: int) -> Mask:
        return self if self.align == "top left" else Shifted(Causal(), keys - queries)

    def __call__(self, b: Array, h: Array, q: Array, k: Array) -> Array:
        if self.align == "bottom right":
            raise value_error("Causal bottom right depends on the lengths: call bind(queries, keys, heads) first.")
        return k <= q

    def condition(self) -> str:
        if self.align == "top left":
            return _("the key is not after it")
        return _("the key is not after it, both counted from the last")


@dataclass(frozen=True)
class PrefixLM(Mask):
    """The first keys are seen by all, the rest by what comes after them: k < prefix, or k ≤ q.

    So a prompt is read in both directions and what is written after it in one (T5, Raffel et al. 2020; UniLM).

    Example:
        >>> PrefixLM(2).matrix(3, 3).long()
        tensor([[1, 1, 0],
                [1, 1, 0],
                [1, 1, 1]])
    """

    CONDITION = N_("the key is one of the first {prefix}, or is not after it")

    prefix: int = field(default=3, metadata={"min": 0, "max": 131072})

    def __call__(self, b: Array, h: Array, q: Array, k: Array) -> Array:
        return (k < self.prefix) | (k <= q)


MASKS = (Full, Causal, PrefixLM)
