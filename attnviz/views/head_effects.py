"""What a measure becomes without each head and each MLP."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnviz.effects.ablation import ablations, estimates, mlp_ablations
from attnviz.effects.metrics import KL, Cosine, EffectMetric
from attnviz.effects.sweep import Text
from attnviz.result_cache import result_cache
from attnviz.state.effects import EffectsState

OnEffects: TypeAlias = Callable[[float, "HeadEffects"], None]


@dataclass(frozen=True, eq=False)
class HeadEffects:
    """The measure without each head and MLP minus that with all, as mean over texts; NaN where it is not known yet, or
    where there is none."""

    own: float  # the measure of the text in which nothing is taken away
    heads: Float[np.ndarray, "layers heads"]
    mlps: Float[np.ndarray, " layers"]
    texts: int = 1
    spread: Float[np.ndarray, "layers heads"] | None = None  # the standard deviation over the texts

    @property
    def measured(self) -> int:
        """The number of heads that have been measured."""
        return int(np.isfinite(self.heads).sum())

    @property
    def is_complete(self) -> bool:
        """Whether every head has been measured."""
        return bool(np.isfinite(self.heads).any()) and self.spread is not None


def effects_key(state: EffectsState) -> tuple[object, ...]:
    """Returns what the effects of heads depend on."""
    texts = tuple(state.lines) if state.ablation != "zero" or state.averages else ()
    return "effects of heads", state.source, state.metric, state.ablation, state.averages, texts


def head_effects(state: EffectsState, progress: OnEffects | None = None) -> HeadEffects:
    """Returns what the measure becomes without each head and MLP, with what is known so far to `progress`. Raises
    ValueError if it cannot be measured."""
    model, others = state.run.linearized.model, None if state.ablation == "zero" else state.other_runs
    runs, layers = state.measured_runs, state.run.heads
    own = Text.from_batch(model, runs[0][0]).value(runs[0][1])
    known = HeadEffects(own, np.full((len(layers), max(layers)), np.nan), np.full(len(layers), np.nan), len(runs))
    of_heads: list[Tensor] = []
    of_mlps: list[Tensor] = []
    steps = len(runs) * 2
    for number, (batch, metric) in enumerate(runs):

        def on_progress(share: float, grid: Tensor, number: int = number, known: HeadEffects = known) -> None:
            if progress is not None:  # of the first text head by head, and then the means of whole texts
                so_far = known if number else replace(known, heads=grid.numpy())
                progress((2 * number + share) / steps, so_far)

        of_heads.append(ablations(model, batch, metric, how=state.ablation, texts=others, on_progress=on_progress))
        of_mlps.append(_mlp_effects(state, model, batch, metric))
        known = replace(known, heads=torch.stack(of_heads).mean(0).numpy(), mlps=torch.stack(of_mlps).mean(0).numpy())
        if progress is not None:
            progress((2 * number + 2) / steps, known)
    spread = torch.stack(of_heads).std(0, correction=0)
    return replace(known, spread=spread.numpy())


def head_estimates(state: EffectsState) -> Float[np.ndarray, "layers heads"] | None:
    """Returns estimates of the effects of heads on the text, by gradients; None for a measure that has none where
    nothing is changed, and for a model that has none."""

    def compute() -> Float[np.ndarray, "layers heads"] | None:
        batch, metric = state.measured_runs[0]
        others = None if state.ablation == "zero" else state.other_runs
        try:
            return estimates(state.run.linearized.model, batch, metric, how=state.ablation, texts=others).numpy()
        except ValueError:
            return None

    if isinstance(state.metric, KL | Cosine):
        return None
    return result_cache().once(compute, "estimates", *effects_key(state)[1:], work=4 * state.source.forward_work)


def _mlp_effects(state: EffectsState, model: nn.Module, batch: dict[str, Any], metric: EffectMetric) -> Tensor:
    """Returns the effect of the MLP of each layer; NaN where there is none, or where MLPs are not known."""
    effects = torch.full((len(state.run.heads),), torch.nan, dtype=torch.float64)
    effects[[*state.run.mlp_layers]] = mlp_ablations(model, batch, metric)
    return effects
