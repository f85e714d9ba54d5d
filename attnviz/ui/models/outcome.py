"""The outcome of an intervention on the Models page: maps and output, and sentences about the output."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np
from jaxtyping import Float
from torch import Tensor

from attnviz.analysis.work import heads_work
from attnviz.formatting import fixed, number, visible
from attnviz.language import N_, _, plural
from attnviz.layer import Layer
from attnviz.models.intervention_run import (
    Candidate,
    InterventionRun,
    TokenLabel,
    cosine,
    has_many_labels,
    head_mass_shifts,
    intervened_layers,
    kl_divergence,
    likeliest_labels,
    likeliest_tokens,
    sentence_similarity,
    token_labels,
)
from attnviz.models.model import LoadedModel, ModelInputs
from attnviz.server.jobs import OnResult
from attnviz.trace.memory import layer_bytes
from attnviz.ui import cache
from attnviz.ui.intervention_widgets import UNCHANGED
from attnviz.views.intervened_example import IntervenedExample

LONGEST_OUTPUT = 60  # characters of what the decoder has written
LISTED = 5  # tokens whose labels are listed
PICTURE = N_("The output of {name} for the image is not compared: the maps show the change.")
_outcomes, _large_outcomes = cache.VisitorResults(4), cache.VisitorResults(1)  # whose maps take memory
LARGE = 64 << 20  # bytes of the maps of one
NEITHER = N_("{name} gives neither a next token, nor labels, nor a vector of a sentence, so the maps show the change.")


@dataclass(frozen=True, eq=False)
class Outcome:
    """The maps and the output of an example under an intervention."""

    layers: Sequence[Layer]
    sentence: str  # about the output
    candidates: list[Candidate]  # the likeliest next tokens or labels
    written: str  # a sentence about the tokens before them, where a decoder writes


def outcome(example: IntervenedExample) -> Outcome:
    """Returns the outcome of a forward pass, cached. Raises ValueError if the model cannot be run."""
    trained = example.model().layers(*example.example)
    results = _large_outcomes if layer_bytes(trained) > LARGE else _outcomes
    return results.once(lambda: _compute_outcome(example), example, work=2 * example.forward_work)


def _compute_outcome(example: IntervenedExample) -> Outcome:
    model, intervention = example.model(), example.intervention
    inputs = model.encode(*example.example)
    output = model.output(inputs) if model.outputs else None
    if intervention.is_empty:
        run, sentence = InterventionRun(model.layers(*example.example), output), _(UNCHANGED)
    else:
        run = example.intervened()
        sentence = _output_sentence(example, output, run.output)
    written = ""
    if model.outputs == "next token" and model.is_encoder_decoder:
        written = written_sentence(_decoded_text(model, inputs), is_typed=bool(example.pair.strip()))
    return Outcome(run.layers, sentence, _candidates(model, output, run.output), written)


def _candidates(model: LoadedModel, before: Tensor | None, after: Tensor | None) -> list[Candidate]:
    """Returns the likeliest next tokens or labels; nothing where the model has neither, or a single number."""
    likeliest = {"next token": likeliest_tokens, "labels": likeliest_labels}.get(model.outputs)
    if likeliest is None or before is None or after is None or len(before) == 1:
        return []
    return likeliest(model, before, after)


def mass_shift_of_heads(
    example: IntervenedExample, before: Sequence[Layer], after: Sequence[Layer]
) -> Float[np.ndarray, "layers heads"]:
    """Returns the mass shift of each head; NaN where a layer has no such head, and where a job has not come yet, whose
    progress is drawn."""
    first = min(intervened_layers([example.intervention], before), default=len(before))  # those below stay
    heads = [layer.inputs.heads for layer in before]

    def compute(progress: OnResult | None = None) -> Float[np.ndarray, "layers heads"]:
        shift = np.full((len(before), max(heads)), np.nan, dtype="f4")
        for i, both in enumerate(zip(before, after, strict=True)):
            shift[i, : heads[i]] = 0 if i < first else head_mass_shifts(*both).numpy()
            if progress:
                progress((i + 1) / len(before), shift.copy())
        return shift

    def describe(shift: Float[np.ndarray, "layers heads"]) -> str:
        return _("{done} of {heads} heads so far.", done=int(np.isfinite(shift).sum()), heads=sum(heads))

    work = sum(heads_work(layers) for layers in (before[first:], after[first:]))
    return cache.once_or_so_far(compute, "mass shift", example, work=work, describe=describe)


# Sentences about the output


def _output_sentence(example: IntervenedExample, before: Tensor | None, after: Tensor | None) -> str:
    model = example.model()
    if before is None or after is None:
        return _(PICTURE if model.modality == "picture" else NEITHER, name=model.name)
    if model.outputs == "token labels":
        return token_label_sentence(
            token_labels(model, before, after), model.encode(example.text, example.pair).source.tokens
        )
    if candidates := _candidates(model, before, after):
        bits = None if has_many_labels(model) else kl_divergence(before, after)
        article = _("The decoder’s") if model.is_encoder_decoder else _("The")
        kind = _("next token") if model.outputs == "next token" else _("label")
        return candidate_sentence(candidates, bits, _("{article} likeliest {kind}", article=article, kind=kind))
    if model.outputs == "labels":
        return _(
            "The model’s score is {before}; with the change it is {after}.",
            before=fixed(float(before), 3),
            after=fixed(float(after), 3),
        )
    if example.pair.strip():
        return similarity_sentence(*sentence_similarity(model, [example.intervention], example.text, example.pair))
    return vector_sentence(cosine(before, after))


def candidate_sentence(candidates: Sequence[Candidate], bits: float | None, subject: str) -> str:
    """Returns a sentence about the effect on the likeliest next token or label."""
    old, new = max(candidates, key=lambda one: one.before), max(candidates, key=lambda one: one.after)
    if old is new:
        sentence = _(
            "{subject} stays “{text}”: {before} before, {after} with the change.",
            subject=subject,
            text=visible(old.text),
            before=number(old.before),
            after=number(old.after),
        )
    else:
        sentence = _(
            "{subject} was “{old}” ({old_before}, and {old_after} with the change); now it is “{new}” ({new_after}).",
            subject=subject,
            old=visible(old.text),
            old_before=number(old.before),
            old_after=number(old.after),
            new=visible(new.text),
            new_after=number(new.after),
        )
    if bits is None:
        return sentence
    kl = _("KL(as trained ‖ changed) is {bits} bits.", bits=number(bits) if isfinite(bits) else _("infinitely many"))
    return f"{sentence} {kl}"


def token_label_sentence(labels: Sequence[TokenLabel], tokens: Sequence[str]) -> str:
    """Returns a sentence about the effect on the labels of tokens."""
    others = [one for one in labels if one.before != one.after]
    if not others:
        return _("Each token keeps its likeliest label.")
    listed = [
        f"{visible(tokens[one.position])} ({visible(one.before)} → {visible(one.after)})" for one in others[:LISTED]
    ]
    end = ", …" if len(others) > LISTED else "."
    return plural(
        "{count} of {tokens} tokens gets another likeliest label: {labels}",
        "{count} of {tokens} tokens get other likeliest labels: {labels}",
        len(others), count=len(others), tokens=len(labels), labels=", ".join(listed) + end,
    )  # fmt: skip


def vector_sentence(angle: float) -> str:
    """Returns a sentence about the effect on the vector of a sentence."""
    return _(
        "The vector of the sentence has a cosine of {angle} with the vector that it has without the change.",
        angle=fixed(angle, 3),
    )


def similarity_sentence(before: float, after: float) -> str:
    """Returns a sentence about the effect on the similarity of two sentences."""
    return _(
        "The two sentences, each read by itself, have vectors with a cosine of {before}; with the change it is "
        "{after}.",
        before=fixed(before, 3),
        after=fixed(after, 3),
    )


def _decoded_text(model: LoadedModel, inputs: ModelInputs) -> str:
    """Returns what the decoder has written as text, or its tokens if the tokenizer has no text for them."""
    text = str(model.tokenizer.decode(inputs.batch["decoder_input_ids"][0, 1:]))
    return text if text.strip() or inputs.target is None else " ".join(inputs.target.tokens[1:])


def written_sentence(text: str, is_typed: bool) -> str:
    """Returns a sentence about what the decoder has written before its next token."""
    text = text if len(text) <= LONGEST_OUTPUT else f"… {text[-LONGEST_OUTPUT:]}"
    written = f"“{visible(text)}”" if text.strip() else _("nothing")
    if is_typed:
        return _("The decoder has written {written}, as you typed. What may come next?", written=written)
    return _("The decoder has written {written} by itself, without the change. What may come next?", written=written)
