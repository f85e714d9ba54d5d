"""What other parts of a model do when a head is ablated: their shares of a metric in that run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnviz.attribution.attribution import Attribution, attribution_of
from attnviz.attribution.linearized_pass import MOST_BYTES, LinearizedPass
from attnviz.attribution.metrics import Logit, LogitDifference
from attnviz.base.interruption import end_if_unwanted
from attnviz.effects.ablation import head_replacements
from attnviz.effects.parts import AblationKind, Head, ModelPart, Site, checked_heads, replacement_of
from attnviz.effects.path_patching import direct_effects
from attnviz.effects.sweep import Text
from attnviz.models.texts import each_text
from attnviz.results import MeasuredResult, grid_columns


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
class Compensation(MeasuredResult):
    """The shares of a metric in the run of a model, and in the one in which a head is ablated.

    `fixed_norms` has what is written in the second at the scales that norms have in the first. So the effect of the
    head is the sum of three changes: of what it writes itself, of what others write, and of the scales of norms, by
    which all shares change. `direct` is its effect where all heads and MLPs after it write what they write in the first
    run, measured as `ablations` (a direct path: Wang et al. 2022); NaN where MLPs are not known.
    """

    head: Head
    before: Shares
    after: Shares
    fixed_norms: Shares
    direct: float

    @property
    def effect(self) -> float:
        """The effect of the head, as of `attnviz.effects.ablations`."""
        return self.after.total - self.before.total

    @property
    def of_head(self) -> float:
        """The part of the effect by the head's own missing output."""
        return float(self.fixed_norms.heads[self.head] - self.before.heads[self.head])

    @property
    def of_others(self) -> float:
        """The part of the effect by changed outputs of other heads and MLPs."""
        return self.fixed_norms.total - self.before.total - self.of_head

    @property
    def of_norms(self) -> float:
        """The part of the effect by the scales of norms."""
        return self.after.total - self.fixed_norms.total

    def columns(self) -> dict[str, Any]:
        """Returns the shares of heads, by their layers, and of MLPs, which have no head."""
        runs = {"before": self.before, "fixed_norms": self.fixed_norms, "after": self.after}
        heads = grid_columns(("layer", "head"), **{name: shares.heads for name, shares in runs.items()})
        mlps = grid_columns(("layer",), **{name: shares.mlps for name, shares in runs.items()})
        mlps["head"] = [None] * len(mlps["layer"])
        return {name: [*heads[name], *mlps[name]] for name in heads}


OnCompensations: TypeAlias = Callable[[float, list[Compensation]], None]


@each_text
def compensations(
    model: nn.Module,
    batch: Any,
    metric: Logit | LogitDifference,
    heads: Sequence[Head],
    *,
    how: AblationKind = "mean",
    texts: Sequence[Any] | None = None,
    most_bytes: int = MOST_BYTES,
    on_progress: OnCompensations | None = None,
) -> list[Compensation]:
    """Returns, for each of some heads, the shares of a metric with it and without it, and its direct effect: a later
    head or MLP that writes something else has read what the head wrote, or what another one made of it (McGrath et al.
    2023, "The Hydra Effect"; backup heads in Wang et al. 2022, "Interpretability in the Wild").

    Each takes about four forward passes. `on_progress` gets the share that is done, and the results so far. Raises
    ValueError as `attnviz.attribute` and `ablations` do.
    """
    text = Text.from_batch(model, batch)
    places, replacements = checked_heads(text, heads), head_replacements(text, how, texts)
    own = attribution_of(LinearizedPass(text.model, text.arguments, most_bytes=most_bytes), metric)
    direct = direct_effects(text, metric, places, replacements)
    before = Shares.mean([own])
    results: list[Compensation] = []
    for number, place in enumerate(places):
        sums = []
        for outputs in replacements:
            end_if_unwanted()
            change = partial(_change, text, place, outputs)
            with torch.inference_mode(False):
                run = LinearizedPass(text.model, text.arguments, most_bytes=most_bytes, change_heads=change)
                sums.append(attribution_of(run, metric))
        by_heads, by_mlps = (torch.stack(shares).mean(0) for shares in zip(*map(own.shares_of, sums), strict=True))
        total = own.total + float((by_heads - before.heads).sum() + (by_mlps - before.mlps).sum())
        made = Compensation(place, before, Shares.mean(sums), Shares(total, by_heads, by_mlps), float(direct[number]))
        results.append(made)
        if on_progress:
            on_progress(len(results) / len(places), results)
    return results


def _change(text: Text, head: Head, outputs: Mapping[Site, Tensor | None], layer: int, written: Tensor) -> None:
    """Replaces, in place, what a head writes in its layer, (positions, heads, width)."""
    if layer == head[0]:
        replacement_of(text, ModelPart("output", *head), outputs)(written[:, head[1]])
