"""What other parts of a model do when a head is ablated: their shares of a metric in that run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnviz.attribution.attribution import Attribution, attribution_of
from attnviz.attribution.linearized_pass import LinearizedPass
from attnviz.attribution.metrics import Logit, LogitDifference
from attnviz.effects.ablation import AblationKind, Head, checked_heads, head_replacements, write_instead
from attnviz.effects.sweep import Text
from attnviz.interruption import end_if_unwanted


@dataclass(frozen=True, eq=False)
class Shares:
    """A metric, and the shares of it that heads and MLPs have at all positions together."""

    total: float
    heads: Float[Tensor, "layers heads"]
    mlps: Float[Tensor, " mlps"]

    @classmethod
    def mean(cls, sums: Sequence[Attribution]) -> "Shares":
        """Returns the mean over several sums."""
        return cls(
            sum(each.total for each in sums) / len(sums),
            torch.stack([each.heads.sum(-1) for each in sums]).mean(0),
            torch.stack([each.mlps.sum(-1) for each in sums]).mean(0),
        )


@dataclass(frozen=True, eq=False)
class Compensation:
    """The shares of a metric in the run of a model, and in the one in which a head is ablated.

    The effect of the head is the sum of all changes: of its own share, which it loses, of the shares of later heads
    and MLPs, and of what embeddings and constants add, which depends on the scales of norms.
    """

    head: Head
    before: Shares
    after: Shares

    @property
    def effect(self) -> float:
        """What `attnviz.effects.ablations` returns for the head."""
        return self.after.total - self.before.total

    @property
    def of_others(self) -> float:
        """The effect without what the head itself no longer writes."""
        return self.effect - float(self.heads[self.head])

    @property
    def heads(self) -> Float[Tensor, "layers heads"]:
        """The changes of the shares of heads."""
        return self.after.heads - self.before.heads

    @property
    def mlps(self) -> Float[Tensor, " mlps"]:
        """The changes of the shares of MLPs."""
        return self.after.mlps - self.before.mlps


OnCompensations: TypeAlias = Callable[[float, list[Compensation]], None]


def compensations(
    model: nn.Module,
    batch: Any,
    metric: Logit | LogitDifference,
    heads: Sequence[Head],
    *,
    how: AblationKind = "zero",
    texts: Sequence[Any] | None = None,
    on_progress: OnCompensations | None = None,
) -> list[Compensation]:
    """Returns, for each of some heads, the shares of a metric with it and without it: a later head whose share changes
    has read what the head wrote, and undoes it, builds on it, or steps in when it is gone (McGrath et al. 2023, "The
    Hydra Effect"; backup heads in Wang et al. 2022, "Interpretability in the Wild").

    Each takes about three forward passes. `on_progress` gets the share that is done, and the results so far. Raises
    ValueError as `attnviz.attribute` and `ablations` do.
    """
    text = Text.from_batch(model, batch)
    places, replacements = checked_heads(text, heads), head_replacements(text, how, texts)
    before = Shares.mean([attribution_of(LinearizedPass(text.model, text.arguments), metric)])
    results: list[Compensation] = []
    for place in places:
        sums = []
        for outputs in replacements:
            end_if_unwanted()
            change = partial(_change, place, outputs)
            with torch.inference_mode(False):
                sums.append(attribution_of(LinearizedPass(text.model, text.arguments, change_heads=change), metric))
        results.append(Compensation(place, before, Shares.mean(sums)))
        if on_progress:
            on_progress(len(results) / len(places), results)
    return results


def _change(head: Head, outputs: Sequence[Tensor | None], layer: int, written: Tensor) -> None:
    if layer == head[0]:
        write_instead(written, [head[1]], outputs[layer])
