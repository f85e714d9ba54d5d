"""A model under an intervention, and the sentences about its output."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from math import isfinite

import numpy as np
import streamlit as st
from jaxtyping import Float
from torch import Tensor

from attnviz.analysis.work import check_work, heads_work
from attnviz.formatting import fixed, number, visible
from attnviz.layer import Layer, Trace
from attnviz.models.intervention_run import (
    InterventionRun,
    NextToken,
    cosine,
    kl_divergence,
    likeliest_tokens,
    mass_shift,
    run_with_interventions,
    sentence_similarity,
)
from attnviz.models.interventions import Intervention
from attnviz.models.model import Model, ModelInputs
from attnviz.ui.models.model_picker import Example

UNCHANGED = "Nothing is changed. Try one of the changes above, or make one of your own."
LONGEST = 60  # characters of what the decoder has written
PICTURE = "What {name} makes of the picture in the end is not compared: it is the maps that show the change."
NEITHER = "{name} gives neither a next token nor a vector of a sentence, so it is the maps that show the change."


@dataclass(frozen=True)
class IntervenedExample(Example):
    """An example under an intervention."""

    intervention: Intervention = field(default_factory=Intervention)

    @classmethod
    def of(cls, example: Example, intervention: Intervention) -> "IntervenedExample":
        return cls(**{one.name: getattr(example, one.name) for one in fields(example)}, intervention=intervention)

    def layers(self) -> Trace:
        return Trace(tuple(outcome(self).layers))


@dataclass(frozen=True, eq=False)
class Outcome:
    """The maps and the output of an example under an intervention."""

    layers: Sequence[Layer]
    mass_shift: Float[np.ndarray, "layers heads"]  # of each head's attention, NaN where a layer has no such head
    sentence: str  # about the output
    next_tokens: list[NextToken]  # the likeliest tokens, where the output is a token
    written: str  # what stands before it, in a sentence, where it is the decoder that writes it


def outcome(example: IntervenedExample) -> Outcome:
    """Returns the outcome of a forward pass, computed once. Raises ValueError if the model cannot be run so."""
    return _outcome(example, repr(example))


@st.cache_resource(max_entries=4, show_spinner="Running the model …")
def _outcome(_example: IntervenedExample, key: str) -> Outcome:
    model, intervention = _example.model(), _example.intervention
    given = _example.text, _example.pair, _example.image.data if _example.image else None
    before = model.layers(*given)
    read = model.encode(*given)
    output = model.output(read) if model.outputs else None
    if intervention.is_empty:
        result, sentence = InterventionRun(before, output), UNCHANGED
    else:
        _check_cost(before, intervention)
        result = run_with_interventions(model, [intervention], *given)
        sentence = _sentence(_example, output, result.output)
    share = np.full((len(before), max(layer.inputs.heads for layer in before)), np.nan, dtype="f4")
    for i, both in enumerate(zip(before, result.layers, strict=True)):
        share[i, : both[0].inputs.heads] = 0 if both[0] is both[1] else mass_shift(*both).numpy()
    tokens: list[NextToken] = []
    written = ""
    if output is not None and result.output is not None and model.outputs == "next token":
        tokens = likeliest_tokens(model, output, result.output)
        if model.is_encoder_decoder:
            written = of_written(_written(model, read), typed=bool(_example.pair.strip()))
    return Outcome(result.layers, share, sentence, tokens, written)


def _check_cost(layers: Sequence[Layer], intervention: Intervention) -> None:
    """Refuses what would keep a core busy for long: every layer's heads are computed twice, and compared."""
    work = heads_work(layers, [intervention.apply(layer.mechanism, i) for i, layer in enumerate(layers)])
    check_work(work, "To run the model so", "Take a shorter text, or another score.")


# What is said of the output


def _sentence(example: IntervenedExample, before: Tensor | None, after: Tensor | None) -> str:
    model = example.model()
    if before is None or after is None:
        return (PICTURE if model.modality == "picture" else NEITHER).format(name=model.name)
    if model.outputs == "next token":
        whose = "The decoder’s" if model.is_encoder_decoder else "The"
        return of_tokens(likeliest_tokens(model, before, after), kl_divergence(before, after), whose)
    if example.pair.strip():
        similarities = sentence_similarity(model, [example.intervention], example.text, example.pair)
        return of_similarity(*similarities)
    return of_vector(cosine(before, after))


def _written(model: Model, read: ModelInputs) -> str:
    """What the decoder has written, as text, or token by token where the tokenizer has no text for them."""
    text = str(model.tokenizer.decode(read.batch["decoder_input_ids"][0, 1:]))
    return text if text.strip() or read.target is None else " ".join(read.target.tokens[1:])


def of_tokens(tokens: Sequence[NextToken], bits: float, whose: str = "The") -> str:
    """What becomes of the next token."""
    was, now = max(tokens, key=lambda one: one.before), max(tokens, key=lambda one: one.after)
    told = f"{whose} likeliest next token "
    if was is now:
        told += f"stays “{visible(was.token)}”: {number(was.before)} before, {number(was.after)} with the change."
    else:
        told += f"was “{visible(was.token)}” ({number(was.before)}, and {number(was.after)} with the change); now it "
        told += f"is “{visible(now.token)}” ({number(now.after)})."
    return f"{told} KL(as it is ‖ changed) is {number(bits) if isfinite(bits) else 'infinitely many'} bits."


def of_written(text: str, typed: bool) -> str:
    """What the decoder has written before its next token."""
    text = text if len(text) <= LONGEST else f"… {text[-LONGEST:]}"
    shown = f"“{visible(text)}”" if text.strip() else "nothing"
    if typed:
        return f"The decoder has written {shown}, as you typed. What may come next?"
    return f"The decoder has written {shown} by itself, without the change. What may come next?"


def of_vector(angle: float) -> str:
    """What becomes of the vector of a sentence."""
    return (
        f"The vector of the sentence has a cosine of {fixed(angle, 3)} with the vector that it has without the change."
    )


def of_similarity(before: float, after: float) -> str:
    """What becomes of the similarity of two sentences."""
    return (
        f"The two sentences, each read by itself, have vectors with a cosine of {fixed(before, 3)}; with the change it "
        f"is {fixed(after, 3)}."
    )
