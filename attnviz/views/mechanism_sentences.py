"""Sentences that describe a mechanism: its score, biases, mask and normalizer."""

from collections.abc import Sequence
from dataclasses import fields

from torch import Tensor

from attnviz.biases import Bias, Distances, SoftCap
from attnviz.formatting import significant
from attnviz.language import N_, _
from attnviz.masks import Mask
from attnviz.normalizers import Normalizer
from attnviz.opaque_parts import ModelBias
from attnviz.scores import Score
from attnviz.state.parts import title

STREAMING_LLM = N_(
    "This is the mask of StreamingLLM alone: the paper also numbers positions anew among the keys that are left. Here "
    "every token keeps its position."
)


def describe_parts(
    score: Score | None, biases: Sequence[Bias], mask: Mask | None, normalizer: Normalizer | None
) -> str:
    """Returns a sentence for each part that is not None, in the order of the computation."""
    sentences = [_("Scores: {parts}.", parts=", ".join([part_name(score), *map(bias_phrase, biases)]))] if score else []
    if mask:
        sentences.append(mask.describe())
    if normalizer:
        sentences.append(_("Weights: {normalizer}.", normalizer=part_name(normalizer)))
    return " ".join(sentences)


def part_name(part: Score | Normalizer) -> str:
    """Returns the name of a part with the parameters that differ from the defaults, such as "Softmax with temperature
    2".

    Learned parameters of each head are omitted.
    """
    if any(isinstance(value, Tensor) for value in vars(part).values()):
        return _(title(type(part)))
    values = [
        f"{_(one.metadata.get('label', one.name))} {significant(getattr(part, one.name))}"
        for one in fields(part)  # type: ignore[arg-type]
        if one.metadata and getattr(part, one.name) != one.default
    ]
    name = _(title(type(part)))
    return _("{part} with {settings}", part=name, settings=", ".join(values)) if values else name


def bias_phrase(bias: Bias) -> str:
    """Returns a phrase about a bias that follows the score."""
    if isinstance(bias, SoftCap):
        return _("squeezed between −{cap} and {cap} (soft cap)", cap=significant(bias.cap))
    if isinstance(bias, Distances):
        return _("plus the model’s number for the distance from query to key")
    if isinstance(bias, ModelBias):
        return _("plus the model’s number for the pair of query and key")
    return _("changed by {title}", title=_(title(type(bias))))
