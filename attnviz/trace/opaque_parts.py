"""Masks and biases of a model without closed form."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

import torch
from torch import Tensor

from attnviz.base.language import N_
from attnviz.biases import Bias
from attnviz.masks import Mask

Rule = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
_serial = count()


@dataclass(frozen=True)
class ModelMask(Mask):
    """The model's own mask rule. Serial numbers make two rules unequal."""

    CONDITION = N_("the model lets it")

    rule: Rule = field(repr=False, compare=False)
    serial: int = field(default_factory=_serial.__next__)

    def __call__(  # type: ignore[override]  # it computes, and cannot be written down
        self, b: Tensor, h: Tensor, q: Tensor, k: Tensor
    ) -> Tensor:
        return self.rule(b, h, q, k).to(q.device)


@dataclass(frozen=True)
class ModelBias(Bias):
    """Numbers that the model adds to its scores. Serial numbers make two biases unequal."""

    rule: Rule = field(repr=False, compare=False)
    serial: int = field(default_factory=_serial.__next__)

    def __call__(self, scores: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return scores + self.rule(b, h, q, k).to(scores)


@dataclass(frozen=True, eq=False)
class CellTable:
    """A rule that looks up cells (groups, heads, queries, keys); axes of size 1 are broadcast.

    The positions of groups are concatenated: query q is query q % queries of group q // queries.
    """

    cells: Tensor
    queries: int
    keys: int

    def __call__(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        positions = (q // self.queries, h, q % self.queries, k % self.keys)
        axes = zip((one.to(self.cells.device) for one in positions), self.cells.shape, strict=True)
        return self.cells[tuple(one if size > 1 else torch.zeros_like(one) for one, size in axes)]
