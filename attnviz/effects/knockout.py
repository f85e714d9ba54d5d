"""What a metric becomes where a key is hidden from the queries after it (attention knockout)."""

from collections.abc import Collection
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnviz.effects.ablation import checked_heads
from attnviz.effects.metrics import EffectMetric
from attnviz.effects.sweep import OnProgress, Text
from attnviz.models.texts import PerText, each_group
from attnviz.tracing.run_changes import LayerHeads, RunChange

LEAST_SINK = 1e-4  # less than this is rounding, and not the weight of a sink


@each_group
def knockout(
    model: nn.Module,
    batch: Any,
    metric: EffectMetric,
    *,
    layer: int | None = None,
    head: int | None = None,
    on_progress: OnProgress | None = None,
) -> Float[Tensor, " tokens"] | PerText[Tensor]:
    """Returns, for each token of a text, the metric where it is hidden as a key minus the metric where it is not; NaN
    for padding, which is hidden anyway.

    It is hidden in all layers, in one of them, or from one head of it: the weights of the other keys are divided by
    what is left of them, as if its score were minus infinity; a query that may look at nothing else gets zeros. Queries
    at the token itself go on without it, too (Geva et al. 2023, "Dissecting Recall of Factual Associations in
    Auto-Regressive Language Models", who hide it from one position). In a model with an encoder and a decoder the
    tokens are those of the encoder, which are hidden from the decoder as well; of a layer of the decoder's
    self-attention they are those of the decoder.

    Raises ValueError if there is no such layer or head, and where the weights of a layer are not known.
    """
    text = Text.from_batch(model, batch)
    if layer is not None:
        checked_heads(text, [(layer, head or 0)])
    layers = text.layers_of_source if layer is None else [layer]
    has_source = layer is None or layer in text.layers_of_source
    read = text.read(text.layers_of_source[0] if layer is None or has_source else layer)

    def at_read(effects: Float[Tensor, "*texts read"]) -> Float[Tensor, "*texts tokens"]:
        at_all = torch.full((*effects.shape[:-1], len(read)), torch.nan, dtype=effects.dtype)
        at_all[..., read] = effects
        return at_all

    def progress(share: float, effects: Tensor) -> None:
        if on_progress:
            on_progress(share, at_read(effects))

    keys = read.nonzero().flatten().tolist()
    return text.of_texts(at_read(text.effects(metric, [hidden_key(key, layers, head) for key in keys], progress)))


def hidden_key(key: int, layers: Collection[int], head: int | None = None) -> RunChange:
    """Returns the run in which a key is hidden from the heads of some layers, or from one of them."""
    places = slice(None) if head is None else slice(head, head + 1)

    def change_heads(layer: int, heads: LayerHeads, example: int) -> None:
        sequences = heads.sequences(example)
        _output, weights = heads.attention(heads.call(), sequences)
        without = _without(weights, key)
        values = torch.stack([heads.values(number, sequences) for number in range(weights.shape[1])], 1)
        heads.output[sequences, :, places] = (without @ values).transpose(1, 2)[:, :, places].to(heads.output)

    def change_weights(layer: int, weights: Tensor) -> None:
        weights[:, places] = _without(weights, key)[:, places]

    return RunChange(layers, change_heads, change_weights)


def _without(weights: Tensor, key: int) -> Tensor:
    """Returns weights (…, keys) without a key, divided by what is left of their sum and of a sink beside it."""
    others = weights.clone()
    others[..., key] = 0
    of_sink = 1 - weights.sum(-1, keepdim=True)
    left = others.sum(-1, keepdim=True) + of_sink.where(of_sink > LEAST_SINK, 0)
    return torch.where(left > 0, others / left, 0)
