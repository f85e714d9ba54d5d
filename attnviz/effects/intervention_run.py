"""A Hugging Face model under interventions: the layers above a changed one get its changed output."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import cosine_similarity

from attnviz.base.language import _, value_error
from attnviz.base.token_texts import vocabulary_tokens
from attnviz.effects.metrics import kl_divergences
from attnviz.inputs import Inputs
from attnviz.layer import FixedWeights, Layer
from attnviz.mechanism import Mechanism
from attnviz.models.forward_pass import run
from attnviz.models.interventions import Intervention, check_places, intervene
from attnviz.models.model import LoadedModel, ModelInputs
from attnviz.tracing import capture
from attnviz.tracing.changed_run import attended
from attnviz.tracing.recording import HeadOutputs

LIKELIEST = 10


@dataclass(frozen=True, eq=False)
class InterventionRun:
    """The attention and the output of one example under interventions."""

    layers: Sequence[Layer]  # named as the model's own, each with the mechanism that it ran with
    output: Float[Tensor, " numbers"] | None  # as LoadedModel.output gives it; None where the model has none


@torch.no_grad()
def run_with_interventions(
    model: LoadedModel,
    interventions: Sequence[Intervention],
    text: str = "",
    pair: str | None = None,
    image: bytes | None = None,
) -> InterventionRun:
    """Runs the model on an example with its attention changed.

    A decoder gets the tokens that it writes without interventions. Raises ValueError if a layer cannot be changed
    because its queries and keys are not known, or if there is no such head.
    """
    before = model.layers(text, pair, image)
    inputs = model.encode(text, pair, image)
    check_places(interventions, [layer.inputs.heads for layer in before])
    changed = intervened_layers(interventions, before)
    if locked := [before[i] for i in changed if before[i].locked]:
        raise ValueError(_locked(locked[0]))
    mechanisms: list[Mechanism] = []
    outputs: list[Tensor] = []

    def intervene_in_layer(layer: int, inputs: Inputs, mechanism: Mechanism) -> tuple[Mechanism, HeadOutputs] | None:
        after = intervene(mechanism, interventions, layer)
        if after == mechanism:
            return None
        mechanisms.append(after)
        if any(one.changes_mechanism(layer) for one in interventions):
            return after, attended(after, inputs)
        nothing = inputs.value.new_zeros(inputs.queries, inputs.value.shape[-1])
        return after, {head: nothing for one in interventions for head in one.ablated_heads(layer)}

    def keep_output(module: Any, args: Any, result: Any) -> None:
        outputs.append(model.extract_output(result))

    with model.lock, model.model.register_forward_hook(keep_output) if model.outputs else nullcontext():
        after = capture(model.model, model.forward_arguments(inputs), intervene=intervene_in_layer)
    if len(after) != len(before):
        reason = after.missing[0] if after.missing else _("It has other layers than before.")
        raise value_error("With this change {name} cannot be shown. {reason}", name=model.name, reason=reason)
    for i in changed:
        if not any(after[i].mechanism is one for one in mechanisms):
            raise ValueError(_locked(before[i]))
    if outputs and bool(outputs[-1].isnan().any()):
        raise value_error(
            "With this change {name} computes numbers that are too large. Choose a milder one.", name=model.name
        )
    first = min(changed, default=len(before))  # those below stay as they are
    layers = [*before[:first], *map(_labeled, after[first:], before[first:])]
    return InterventionRun(layers, outputs[-1] if outputs else None)


def intervened_layers(interventions: Sequence[Intervention], layers: Sequence[Layer]) -> list[int]:
    """Returns the indices of the layers whose mechanism the interventions change."""
    return [i for i, layer in enumerate(layers) if _is_intervened(layer, interventions, i)]


def _is_intervened(layer: Layer, interventions: Sequence[Intervention], index: int) -> bool:
    if isinstance(layer.mechanism, FixedWeights):
        return any(one.changes_mechanism(index) or one.ablated_heads(index) for one in interventions)
    return intervene(layer.mechanism, interventions, index) != layer.mechanism


def sentence_similarity(
    model: LoadedModel, interventions: Sequence[Intervention], text: str, other: str
) -> tuple[float, float]:
    """Returns the cosine of the vectors of two sentences, each read by itself, before and after the interventions."""
    before, after = zip(*(_sentence_vectors(model, interventions, one) for one in (text, other)), strict=True)
    return cosine(*before), cosine(*after)


def _sentence_vectors(model: LoadedModel, interventions: Sequence[Intervention], text: str) -> tuple[Tensor, Tensor]:
    inputs = model.encode(text)
    after = run(model.model, model.forward_arguments(inputs), interventions)
    return model.output(inputs), model.extract_output(after)


@dataclass(frozen=True)
class Candidate:
    """A token that may come next, or a label, with its probability before and after an intervention."""

    text: str
    index: int  # among the tokens, or the labels
    before: float
    after: float


def likeliest_tokens(model: LoadedModel, before: Tensor, after: Tensor, count: int = LIKELIEST) -> list[Candidate]:
    """Returns the most likely next tokens before or after, by the logits of both."""
    p, q = before.double().softmax(-1), after.double().softmax(-1)
    first = torch.maximum(p, q).argsort(descending=True, stable=True)[:count].tolist()
    tokens = vocabulary_tokens(model.tokenizer, first)
    return [Candidate(token.text, i, float(p[i]), float(q[i])) for token, i in zip(tokens, first, strict=True)]


def token_probabilities(
    model: LoadedModel, inputs: ModelInputs, intervention: Intervention
) -> Float[Tensor, " tokens"]:
    """Returns the probability that a decoder-only model gives each token of a text but the first, from those before it:
    its logits at all positions are held in memory."""
    ids = inputs.batch["input_ids"]
    logits = run(model.model, dict(inputs.batch), intervention).logits[0, :-1]
    return logits.double().softmax(-1).gather(-1, ids[0, 1:, None])[:, 0]


def likeliest_labels(model: LoadedModel, before: Tensor, after: Tensor, count: int = LIKELIEST) -> list[Candidate]:
    """Returns the most likely labels before or after, by the logits of both; several labels may hold at once if the
    model was trained so."""
    p, q = (
        logits.double().sigmoid() if has_many_labels(model) else logits.double().softmax(-1)
        for logits in (before, after)
    )
    first = torch.maximum(p, q).argsort(descending=True, stable=True)[:count].tolist()
    labels = model.labels
    return [Candidate(labels[i], i, float(p[i]), float(q[i])) for i in first]


def has_many_labels(model: LoadedModel) -> bool:
    """Returns whether several labels of a classifier may hold at once."""
    return getattr(model.model.config, "problem_type", None) == "multi_label_classification"


@dataclass(frozen=True)
class TokenLabel:
    """The likeliest label of a token, before and after an intervention."""

    position: int
    before: str
    after: str


def token_labels(model: LoadedModel, before: Tensor, after: Tensor) -> list[TokenLabel]:
    """Returns the likeliest label of each token before and after, by the logits of both."""
    labels = model.labels
    best = (logits.view(-1, len(labels)).argmax(-1).tolist() for logits in (before, after))
    return [TokenLabel(i, labels[old], labels[new]) for i, (old, new) in enumerate(zip(*best, strict=True))]


def kl_divergence(before: Tensor, after: Tensor) -> float:
    """Returns the Kullback–Leibler divergence KL(before ‖ after) of two vectors of logits, in bits.

    It is Σ p · log₂(p / q), where p is the softmax of `before` and q that of `after` (Kullback & Leibler 1951, "On
    Information and Sufficiency").

    Example:
        >>> kl_divergence(torch.tensor([0.0, 0.0]), torch.tensor([0.0, 0.0]))
        0.0
    """
    divergence = kl_divergences(before.double().log_softmax(-1), after.double().log_softmax(-1))
    return max(0.0, float(divergence))


def cosine(one: Float[Tensor, " numbers"], other: Float[Tensor, " numbers"]) -> float:
    """Returns the cosine of the angle between two vectors.

    Example:
        >>> cosine(torch.tensor([1.0, 0.0]), torch.tensor([0.0, 2.0]))
        0.0
    """
    return float(cosine_similarity(one.double(), other.double(), dim=0))


def _locked(layer: Layer) -> str:
    return _(
        "The attention of {name} cannot be changed: the model computes it by itself, and does not "
        "expose its queries and keys. Choose another layer, or change this one alone where that is "
        "possible.",
        name=layer.name,
    )


def _labeled(layer: Layer, like: Layer) -> Layer:
    """Returns the layer with the name and the tokens of another."""
    inputs = layer.inputs.with_tokens(
        query_tokens=like.inputs.query_tokens,
        key_tokens=like.inputs.key_tokens,
        special_queries=like.inputs.special_queries,
        special_keys=like.inputs.special_keys,
    )
    return replace(layer, id=like.id, inputs=inputs)
