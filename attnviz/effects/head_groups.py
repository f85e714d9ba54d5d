"""What a metric becomes without groups of heads."""

from collections.abc import Collection, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnviz.effects.ablation import AblationKind, Head, checked_heads, head_replacements, mean_effects, replaced_heads
from attnviz.effects.metrics import EffectMetric
from attnviz.effects.sweep import Text


def group_effects(
    model: nn.Module,
    batch: Any,
    metric: EffectMetric,
    groups: Sequence[Collection[Head]],
    *,
    how: AblationKind = "mean",
    texts: Sequence[Any] | None = None,
) -> Float[Tensor, " groups"]:
    """Returns, for each group of heads, the metric where all of them are ablated together minus the metric with all; 0
    of an empty group. Otherwise as `attnviz.effects.ablations`, whose errors it raises."""
    text = Text.from_batch(model, batch)
    places, replacements = [checked_heads(text, [*group]) for group in groups], head_replacements(text, how, texts)
    effects, filled = torch.zeros(len(places), dtype=torch.float64), [i for i, group in enumerate(places) if group]
    if filled:
        runs = [[replaced_heads(places[i], outputs) for i in filled] for outputs in replacements]
        effects[filled] = mean_effects(text, metric, runs)
    return effects
