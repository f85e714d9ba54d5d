"""What if: a model run with its attention exchanged, so that every layer above sees what comes of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import cosine_similarity

from attnviz.inputs import Inputs
from attnviz.layer import Layer
from attnviz.mechanism import Mechanism, blocks
from attnviz.models.model import Model
from attnviz.models.text_inputs import decoded
from attnviz.translator.model import Change

LIKELIEST = 10


@dataclass(frozen=True)
class Exchange:
    """What is exchanged in a model's attention, and in which layers; heads are off wherever they are.

    `layers` are places among the model's layers; None is all of them.
    """

    change: Change = field(default_factory=Change)
    layers: tuple[int, ...] | None = None

    def of(self, mechanism: Mechanism, layer: int) -> Mechanism:
        """The mechanism of a layer as it is after the exchange."""
        here = self.layers is None or layer in self.layers
        return (self.change if here else Change(off=self.change.off)).of(mechanism, layer)

    def reach(self, layers: Sequence[Layer]) -> list[int]:
        """The places of the layers that attend otherwise after the exchange."""
        return [i for i, layer in enumerate(layers) if self.of(layer.mechanism, i) != layer.mechanism]


UNCHANGED = Exchange()


@dataclass(frozen=True, eq=False)
class Changed:
    """What one example becomes under an exchange."""

    layers: Sequence[Layer]  # named as the model's own, each with the mechanism that it ran with
    output: Float[Tensor, " numbers"] | None  # as Model.output gives it; None where the model has none


@torch.no_grad()
def changed(
    model: Model, exchange: Exchange, text: str = "", pair: str | None = None, image: bytes | None = None
) -> Changed:
    """A forward of the model on this example with its attention exchanged.

    What the decoder has written so far is what it writes by itself without the exchange. Raises ValueError, in words,
    where a layer is to attend otherwise whose queries and keys are not known.
    """
    before = model.layers(text, pair, image)
    read = model.reading(text, pair, image)
    _check(exchange, before)
    made: list[Mechanism] = []
    outputs: list[Tensor] = []

    def other(layer: int, inputs: Inputs, mechanism: Mechanism) -> tuple[Mechanism, Tensor] | None:
        after = exchange.of(mechanism, layer)
        if after == mechanism:
            return None
        made.append(after)
        return after, attended(after, inputs)

    def heard(module: Any, given: Any, result: Any) -> None:
        outputs.append(model.said(result))

    from attnviz.capture import capture

    with model.lock:
        hook = model.model.register_forward_hook(heard) if model.outputs else None
        try:
            after = capture(model.model, model.given(read), exchange=other)
        finally:
            if hook:
                hook.remove()
    if len(after) != len(before):
        reason = after.missing[0] if after.missing else "It has other layers than before."
        raise ValueError(f"With this change {model.name} cannot be shown. {reason}")
    for i in exchange.reach(before):
        if not any(after[i].mechanism is one for one in made):
            raise ValueError(_closed(before[i]))
    if outputs and bool(outputs[-1].isnan().any()):
        raise ValueError(f"With this change {model.name} computes numbers that are too large. Take a milder one.")
    layers = [_named(layer, like) for layer, like in zip(after, before, strict=True)]
    return Changed(layers, outputs[-1] if outputs else None)


def attended(mechanism: Mechanism, inputs: Inputs) -> Float[Tensor, "heads queries d_v"]:
    """The output of a mechanism, head by head and in blocks of rows: no more scores than for one block are held."""
    return torch.stack(
        [
            torch.cat([mechanism(inputs, heads=head, rows=slice(*block)).output[0] for block in blocks(inputs.queries)])
            for head in range(inputs.heads)
        ]
    )


def moved(before: Layer, after: Layer) -> Float[Tensor, " heads"]:
    """The share of a query's attention that has gone from where it was, for each head, on average over the queries.

    Σ over keys of max(0, weight before − weight after): from 0, where nothing has changed, to 1, where all attention
    is elsewhere or the head is off. Where rows add up to 1 on both sides it is their total variation distance.
    """
    heads = []
    for head in range(before.inputs.heads):
        gone = torch.zeros((), dtype=torch.float64)
        for block in blocks(before.inputs.queries):
            rows = slice(*block)
            was, now = (one.mechanism(one.inputs, heads=head, rows=rows).weights[0] for one in (before, after))
            gone += (was - now).clamp(min=0).double().sum()
        heads.append(gone / before.inputs.queries)
    return torch.stack(heads).float()


def similarity(model: Model, exchange: Exchange, text: str, pair: str) -> tuple[float, float]:
    """The cosine of the vectors of two sentences, each read by itself, without the exchange and with it."""
    before, after = zip(*(_vectors(model, exchange, one) for one in (text, pair)), strict=True)
    return cosine(*before), cosine(*after)


def _vectors(model: Model, exchange: Exchange, text: str) -> tuple[Tensor, Tensor]:
    after = changed(model, exchange, text).output
    before = model.output(model.reading(text))
    return before, before if after is None else after


@dataclass(frozen=True)
class Next:
    """A token that may come next, and how likely it is without and with the exchange."""

    token: str
    before: float
    after: float


def likeliest(model: Model, before: Tensor, after: Tensor, count: int = LIKELIEST) -> list[Next]:
    """The tokens that are likeliest to come next, without the exchange or with it, by their logits in both."""
    p, q = before.double().softmax(-1), after.double().softmax(-1)
    first = torch.maximum(p, q).argsort(descending=True, stable=True)[:count].tolist()
    return [Next(decoded(model.tokenizer, token), float(p[token]), float(q[token])) for token in first]


def divergence(before: Tensor, after: Tensor) -> float:
    """The Kullback–Leibler divergence of the next token without the exchange from that with it, in bits.

    Σ p · log₂(p / q), where p is what the logits `before` give and q what `after` gives: what it costs on average to
    expect q where p holds. Kullback & Leibler 1951, "On Information and Sufficiency".
    """
    p, q = before.double().log_softmax(-1), after.double().log_softmax(-1)
    terms = torch.where(p.isneginf(), 0, p.exp() * (p - q))
    return max(0.0, float(terms.sum()) / torch.log(torch.tensor(2.0, dtype=torch.float64)).item())


def cosine(one: Float[Tensor, " numbers"], other: Float[Tensor, " numbers"]) -> float:
    """The cosine of the angle between two vectors."""
    return float(cosine_similarity(one.double(), other.double(), dim=0))


def _check(exchange: Exchange, layers: Sequence[Layer]) -> None:
    for layer, head in exchange.change.off:
        if not 0 <= layer < len(layers) or not 0 <= head < layers[layer].inputs.heads:
            raise ValueError(f"There is no head {head} in a layer number {layer}, so it cannot be switched off.")
    if closed := [layers[i] for i in exchange.reach(layers) if layers[i].locked]:
        raise ValueError(_closed(closed[0]))


def _closed(layer: Layer) -> str:
    return (
        f"The attention of {layer.name} cannot be exchanged: the model computes it by itself, and hands over no "
        "queries and keys. Choose another layer, or change this one alone where that is possible."
    )


def _named(layer: Layer, like: Layer) -> Layer:
    """A layer with the name and the tokens of another."""
    inputs = replace(
        layer.inputs,
        query_tokens=like.inputs.query_tokens,
        key_tokens=like.inputs.key_tokens,
        special_queries=like.inputs.special_queries,
        special_keys=like.inputs.special_keys,
    )
    return replace(layer, id=like.id, inputs=inputs)
