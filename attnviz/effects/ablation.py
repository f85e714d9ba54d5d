"""What a metric becomes without a head or an MLP, measured by running the model, and estimated by gradients."""

from collections.abc import Collection, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnviz.effects.metrics import EffectMetric
from attnviz.effects.part_effects import estimated_effects, measured_effects
from attnviz.effects.parts import (
    AblationKind,
    Head,
    ModelPart,
    Site,
    checked_heads,
    every_head,
    replacements,
)
from attnviz.effects.sweep import OnProgress, Text
from attnviz.models.texts import PerText, each_group


@each_group
def ablations(
    model: nn.Module,
    batch: Any,
    metric: EffectMetric,
    *,
    how: AblationKind = "mean",
    texts: Sequence[Any] | None = None,
    heads: Sequence[Head] | None = None,
    on_progress: OnProgress | None = None,
) -> Float[Tensor, "layers heads"] | PerText[Tensor]:
    """Returns the metric without each head minus the metric with all, for one text; NaN where there is no head, or none
    of `heads`, if these are given. Of `Texts` it is a `PerText`.

    Positions of metrics are counted as in the batch, those below 0 from the last one that is read: what the attention
    mask hides, as padding, is in no number and no mean.

    An ablated head writes the mean of its outputs at all positions of `texts`, such as `neutral_texts`, or without any
    of this text: then what it writes everywhere in it has no effect (mean ablation). Or it writes its output at the
    same position of another text, as mean over `texts` (resample ablation, Chan et al. 2022, "Causal Scrubbing"); or
    zero (Michel et al. 2019, "Are Sixteen Heads Really Better than One?"), after which later layers read what they have
    never read, so that an effect may be that of a constant. The model is run, with the heads of a layer as rows of a
    batch. `on_progress` gets the share that is done and the effects so far, and ends the computation by an exception.

    Raises ValueError if there is no such layer or head, if texts are missing or too short, if what heads write is not
    known and zero is not what they are to write, or if the model has not what the metric is of.

    Example:
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> from attnviz.attribution import Logit
        >>> model = GPT2LMHeadModel(GPT2Config(vocab_size=9, n_embd=8, n_layer=2, n_head=2)).eval()
        >>> ablations(model, torch.tensor([[1, 2, 3]]), Logit(4)).shape
        torch.Size([2, 2])
    """
    text = Text.from_batch(model, batch)
    places = every_head(text) if heads is None else checked_heads(text, heads)

    def progress(share: float, effects: Tensor) -> None:
        if on_progress:
            on_progress(share, on_grid(text, places, effects))

    parts, outputs = [[part] for part in as_parts(places)], head_replacements(text, how, texts)
    return text.of_texts(on_grid(text, places, measured_effects(text, metric, parts, outputs, progress)))


@each_group
def estimates(
    model: nn.Module,
    batch: Any,
    metric: EffectMetric,
    *,
    how: AblationKind = "mean",
    texts: Sequence[Any] | None = None,
) -> Float[Tensor, "layers heads"] | PerText[Tensor]:
    """Returns an estimate of `ablations` by one forward and one backward pass: the gradient of the metric at the output
    of each head times what ablation would add to it (attribution patching, Nanda 2023; Syed et al. 2023).

    It is exact where the metric is affine in the output, and may be far off elsewhere. Metrics that are at their
    extreme where nothing is changed, as KL and Cosine are, have no gradient there. Raises ValueError as `ablations`,
    and where the model has no gradients.
    """
    text = Text.from_batch(model, batch)
    places = every_head(text)
    parts, outputs = [[part] for part in as_parts(places)], head_replacements(text, how, texts)
    return text.of_texts(on_grid(text, places, estimated_effects(text, metric, parts, outputs)))


@each_group
def mlp_ablations(
    model: nn.Module,
    batch: Any,
    metric: EffectMetric,
    *,
    how: AblationKind = "mean",
    texts: Sequence[Any] | None = None,
    on_progress: OnProgress | None = None,
) -> Float[Tensor, " mlps"] | PerText[Tensor]:
    """Returns the metric without each MLP minus the metric with all, for one text; MLPs are counted as in
    `attnviz.attribute`, which says what they are. What an ablated one writes is as in `ablations`, as are the errors;
    also raises ValueError where MLPs are not known."""
    text = Text.from_batch(model, batch)
    parts = [ModelPart("mlp", number) for number in range(len(text.mlps))]
    outputs = replacements(text, [part.site for part in parts], how, texts)
    return text.of_texts(measured_effects(text, metric, [[part] for part in parts], outputs, on_progress))


@each_group
def group_effects(
    model: nn.Module,
    batch: Any,
    metric: EffectMetric,
    groups: Sequence[Collection[Head]],
    *,
    how: AblationKind = "mean",
    texts: Sequence[Any] | None = None,
) -> Float[Tensor, " groups"] | PerText[Tensor]:
    """Returns, for each group of heads, the metric where all of them are ablated together minus the metric with all; 0
    of an empty group. Otherwise as `attnviz.effects.ablations`, whose errors it raises."""
    text = Text.from_batch(model, batch)
    chosen = [as_parts(checked_heads(text, [*group])) for group in groups]
    return text.of_texts(measured_effects(text, metric, chosen, head_replacements(text, how, texts)))


def head_replacements(text: Text, how: AblationKind, texts: Sequence[Any] | None) -> list[dict[Site, Tensor | None]]:
    """Returns what the heads of each layer write instead, as `replacements`."""
    return replacements(text, [Site("output", layer) for layer in range(len(text.heads))], how, texts)


def as_parts(heads: Collection[Head]) -> list[ModelPart]:
    """Returns the outputs of heads."""
    return [ModelPart("output", *head) for head in heads]


def on_grid(
    text: Text, places: Sequence[Head], values: Float[Tensor, "*texts places"]
) -> Float[Tensor, "*texts layers heads"]:
    """Returns values of heads as a grid; NaN where there is none."""
    grid = torch.full((*values.shape[:-1], len(text.heads), max(text.heads)), torch.nan, dtype=torch.float64)
    if places:
        layers, heads = zip(*places, strict=True)
        grid[..., list(layers), list(heads)] = values
    return grid
