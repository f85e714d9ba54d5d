"""What a measure becomes without each head and each MLP."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from attnviz.base.language import value_error
from attnviz.effects.ablation import AblationKind, Head, ablations, estimates, mlp_ablations
from attnviz.effects.metrics import KL, Cosine, NamedMetric
from attnviz.effects.sweep import Text
from attnviz.page.result_cache import result_cache
from attnviz.pages.effects.state import EffectsState, known_ablations, measures_many

ESTIMATES = 0.1  # the share of the time that estimates of many texts take (SmolLM2)

OnEffects: TypeAlias = Callable[[float, "HeadEffects"], None]


@dataclass(frozen=True, eq=False)
class HeadEffects:
    """The measure without each head and MLP minus that with all, as mean over texts; NaN where it is not known yet, or
    where there is none."""

    measures: Float[np.ndarray, " texts"]  # of each text, in which nothing is taken away
    heads: Float[np.ndarray, "layers heads"]
    mlps: Float[np.ndarray, " layers"]
    each: Float[np.ndarray, "measured layers heads"] | None = None  # of each text that is measured, the first ones
    estimated: Float[np.ndarray, "layers heads"] | None = None  # what heads have until they are measured

    @property
    def measured(self) -> int:
        """The number of heads and MLPs that have been measured."""
        return int(np.isfinite(self.heads).sum() + np.isfinite(self.mlps).sum())

    @property
    def own(self) -> float:
        """The measure where nothing is taken away, as mean over the texts."""
        return float(self.measures.mean())

    @property
    def texts(self) -> int:
        """The number of texts in which all heads and MLPs have been measured."""
        return 0 if self.each is None else len(self.each)

    @property
    def errors(self) -> Float[np.ndarray, "layers heads"] | None:
        """The standard error of the means over these texts; None of fewer than two."""
        return None if self.each is None or self.texts < 2 else self.each.std(0, ddof=1) / self.texts**0.5

    @property
    def is_complete(self) -> bool:
        """Whether every head and every MLP has been measured in every text."""
        return bool(np.isfinite(self.heads).any()) and self.texts == len(self.measures)


def effects_key(state: EffectsState) -> tuple[object, ...]:
    """Returns what the effects of heads depend on."""
    texts = tuple(state.lines) if state.ablation != "zero" else ()
    texts_read = (state.model, state.measure, *state.measured_texts) if measures_many(state) else (state.source,)
    return "effects of heads", texts_read, state.metric, state.ablation, texts


def head_effects(state: EffectsState, progress: OnEffects | None = None) -> HeadEffects:
    """Returns what the measure becomes without each head and MLP, with what is known so far to `progress`. Raises
    ValueError if it cannot be measured."""
    model, others = state.run.linearized.model, None if state.ablation == "zero" else state.other_runs
    runs, layers = state.measured_runs, state.run.heads
    own = np.array([float(Text.from_batch(model, batch).values(metric)) for batch, metric in runs])
    if not np.isfinite(own).all():
        raise value_error(
            "The measure of text {number} is not finite, so that no effect on it can be measured. Leave it out.",
            number=int(np.isfinite(own).argmin()) + 1,
        )
    known = HeadEffects(own, np.full((len(layers), max(layers)), np.nan), np.full(len(layers), np.nan))
    of_heads: list[Tensor] = []
    of_mlps: list[Tensor] = []
    parts = sum(layers), len(state.run.mlp_layers)
    options: dict[str, Any] = {"how": state.ablation, "texts": others}
    before = 0.0
    if progress is not None:
        if state.ablation != "resample":  # whose texts are refused, if they are too short, once they are read
            progress(0, known)
        known = replace(known, estimated=_estimates(state, runs, **options))
        if known.estimated is not None:
            before = ESTIMATES if len(runs) > 1 else 0.0
            progress(before, known)

    def report(number: int, done: float, so_far: HeadEffects) -> None:
        if progress is not None:
            progress(before + (1 - before) * (number + done / sum(parts)) / len(runs), so_far)

    for number, (batch, metric) in enumerate(runs):
        # Of one text what is known grows part by part; of many there are means of whole texts alone.

        def on_heads(share: float, grid: Tensor, number: int = number, known: HeadEffects = known) -> None:
            report(number, parts[0] * share, known if len(runs) > 1 else replace(known, heads=grid.numpy()))

        of_heads.append(ablations(model, batch, metric, **options, on_progress=on_heads))
        known = known if len(runs) > 1 else replace(known, heads=of_heads[0].numpy())

        def on_mlps(share: float, mlps: Tensor, number: int = number, known: HeadEffects = known) -> None:
            so_far = known if len(runs) > 1 else replace(known, mlps=_on_layers(state, mlps))
            report(number, parts[0] + parts[1] * share, so_far)

        of_mlps.append(mlp_ablations(model, batch, metric, **options, on_progress=on_mlps))
        each, mlps = torch.stack(of_heads), _on_layers(state, torch.stack(of_mlps).mean(0))
        known = replace(known, heads=each.mean(0).numpy(), mlps=mlps, each=each.numpy())
        report(number + 1, 0, known)
    return known


def other_effects(state: EffectsState, heads: Sequence[Head]) -> dict[Head, float]:
    """Returns the effects of heads where they write zeros instead, or their means where the page has zeros; none where
    means are not known."""
    kind: AblationKind = "mean" if state.ablation == "zero" else "zero"
    if kind not in known_ablations(state).values() or not heads:
        return {}
    model, texts = state.run.linearized.model, None if kind == "zero" else state.other_runs
    effects = [
        ablations(model, batch, metric, how=kind, texts=texts, heads=heads) for batch, metric in state.measured_runs
    ]
    return {head: float(torch.stack(effects).mean(0)[head]) for head in heads}


def other_effect(state: EffectsState, head: Head) -> float | None:
    """Returns that of one head, from the cache if possible."""
    key = "other effect", *effects_key(state)[1:], tuple(state.lines), head
    work = 4 * len(state.measured_runs) * state.source.forward_work
    return result_cache().once(lambda: other_effects(state, [head]), *key, work=work).get(head)


def _estimates(
    state: EffectsState, runs: Sequence[tuple[Any, NamedMetric]], **options: Any
) -> Float[np.ndarray, "layers heads"] | None:
    """Returns estimates of the effects of heads, by gradients, as mean over the texts; None for a measure that has
    none where nothing is changed, and for a model that has none."""
    if isinstance(state.metric, KL | Cosine):
        return None
    model = state.run.linearized.model
    try:
        of_texts = [estimates(model, batch, metric, **options) for batch, metric in runs]
    except ValueError:
        return None
    return torch.stack(of_texts).mean(0).numpy()


def _on_layers(state: EffectsState, mlps: Tensor) -> Float[np.ndarray, " layers"]:
    """Returns the effect of the MLP of each layer; NaN where there is none, or where it is not known yet."""
    effects = np.full(len(state.run.heads), np.nan)
    effects[[*state.run.mlp_layers]] = mlps.numpy()
    return effects
