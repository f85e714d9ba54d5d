"""What a metric becomes with some heads of a model alone, and a small set of heads that keeps most of it."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnviz.effects.ablation import (
    AblationKind,
    Head,
    checked_heads,
    every_head,
    head_replacements,
    replaced_heads,
)
from attnviz.effects.metrics import EffectMetric
from attnviz.effects.sweep import Text
from attnviz.language import value_error

SIZES_AT_ONCE = 32  # of sets that are tried in one step


@dataclass(frozen=True)
class HeadSet:
    """Heads, and a metric of the run in which they alone are kept: all others are ablated."""

    heads: tuple[Head, ...]
    value: float
    with_all: float  # the metric where no head is ablated
    with_none: float  # the metric where every head is ablated

    @property
    def kept(self) -> float:
        """The share of the way from the metric without any head to that with all (faithfulness): 1 with all of them;
        more where the heads that are left out work against the rest."""
        return _kept(self.value, self.with_all, self.with_none)


OnHeadSet: TypeAlias = Callable[[float, HeadSet], None]  # gets the share that is done, and the smallest set so far


@dataclass(eq=False)
class HeadGroups:
    """One text that a model reads with groups of its heads ablated together."""

    text: Text
    metric: EffectMetric
    replacements: list[list[Tensor | None]]

    @classmethod
    def from_batch(
        cls, model: nn.Module, batch: Any, metric: EffectMetric, how: AblationKind, texts: Sequence[Any] | None
    ) -> "HeadGroups":
        text = Text.from_batch(model, batch)
        return cls(text, metric, head_replacements(text, how, texts))

    def effects(
        self, groups: Sequence[Collection[Head]], on_share: Callable[[float], None] = lambda share: None
    ) -> Float[Tensor, " groups"]:
        """Returns the effects of ablating groups of heads; 0 of an empty one. `on_share` gets the share that is
        done."""
        effects, count = torch.zeros(len(groups), dtype=torch.float64), len(self.replacements)
        filled = [i for i, group in enumerate(groups) if group]
        for number, outputs in enumerate(self.replacements if filled else ()):

            def on_progress(share: float, values: Tensor, number: int = number) -> None:
                on_share((number + share) / count)

            changes = [replaced_heads(groups[i], outputs) for i in filled]
            effects[filled] += self.text.effects(self.metric, changes, on_progress)
        return effects / count


def group_effects(
    model: nn.Module,
    batch: Any,
    metric: EffectMetric,
    groups: Sequence[Collection[Head]],
    *,
    how: AblationKind = "zero",
    texts: Sequence[Any] | None = None,
) -> Float[Tensor, " groups"]:
    """Returns, for each group of heads, the metric where all of them are ablated together minus the metric with all;
    otherwise as `attnviz.effects.ablations`, whose errors it raises."""
    ablated = HeadGroups.from_batch(model, batch, metric, how, texts)
    return ablated.effects([checked_heads(ablated.text, [*group]) for group in groups])


def smallest_set(
    model: nn.Module,
    batch: Any,
    metric: EffectMetric,
    *,
    kept: float = 0.9,
    how: AblationKind = "zero",
    texts: Sequence[Any] | None = None,
    on_progress: OnHeadSet | None = None,
) -> HeadSet:
    """Returns a small set of heads that keeps a share of a metric when all other heads are ablated, found by a greedy
    search backward from all heads.

    Each step measures the set without each of its heads, and then without the most that can go together, those that are
    missed the least first. At the end no head of the set can be left out alone: its `kept` would be less. A smaller
    set may exist; the search for the smallest would try every set. `on_progress` ends the search by an exception.

    Raises ValueError as `ablations` does, for a share outside of 0 to 1, and if the metric is the same without heads.
    """
    if not 0 < kept <= 1:
        raise value_error("The share that is kept is above 0 and at most 1; this is {kept}.", kept=kept)
    groups = HeadGroups.from_batch(model, batch, metric, how, texts)
    every = every_head(groups.text)
    with_all = groups.text.value(metric)
    with_none = with_all + float(groups.effects([every])[0])
    if abs(with_all - with_none) <= 1e-6 * max(1.0, abs(with_all)):
        raise value_error("The measure is the same without any head, so no set of heads keeps it. Choose another one.")

    def values(sets: Sequence[Collection[Head]]) -> list[float]:
        others = [[head for head in every if head not in kept_heads] for kept_heads in map(set, sets)]
        return [with_all + effect for effect in groups.effects(others, on_share).tolist()]

    def share(value: float) -> float:
        return _kept(value, with_all, with_none)

    head_set, done = HeadSet(tuple(every), with_all, with_all, with_none), 0.0

    def on_share(share: float) -> None:
        nonlocal done
        done = max(done, 1 - len(head_set.heads) / len(every) * (1 - share / 2))
        if on_progress:
            on_progress(done, head_set)

    while True:
        on_share(0.0)
        without = values([[other for other in head_set.heads if other != head] for head in head_set.heads])
        by_head = dict(zip(head_set.heads, map(share, without), strict=True))
        order = sorted((head for head in by_head if by_head[head] >= kept), key=lambda head: -by_head[head])
        if not order:
            return head_set
        sizes = sorted({1 + round(i * (len(order) - 1) / (SIZES_AT_ONCE - 1)) for i in range(SIZES_AT_ONCE)})
        sets = [tuple(head for head in head_set.heads if head not in order[:size]) for size in sizes]
        kept_by = list(zip(sets, values(sets), strict=True))
        heads, value = next((heads, value) for heads, value in reversed(kept_by) if share(value) >= kept)
        head_set = HeadSet(heads, value, with_all, with_none)


def _kept(value: float, with_all: float, with_none: float) -> float:
    return (value - with_none) / (with_all - with_none)
