"""What a model says when it reads its text under mask A and under mask B."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from heapq import nlargest
from math import isfinite
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float
from torch import Tensor

from attnviz.analysis.work import check_work, heads_work
from attnviz.base.formatting import fixed, number, visible
from attnviz.base.language import _, plural
from attnviz.base.turns import is_heavy
from attnviz.figures.bars import MOST_KEYS, bars
from attnviz.lessons.checks import Quantities, named_quantities
from attnviz.models.interventions import Intervention
from attnviz.page.blocks import Anchor, Block, Columns, Computed, Figure, Heading, Note, Paragraph, Summary, available
from attnviz.page.head_state import own_mechanism
from attnviz.pages.masks.state import SIDES, MasksState
from attnviz.pages.why.links import text_of_model
from attnviz.sources import Model

if TYPE_CHECKING:  # with huggingface_hub
    from attnviz.effects.intervention_run import Candidate, TokenLabel

MOST_TOKENS = 128  # of a text, for each of which a probability of every token of the vocabulary is computed
LISTED = 5  # tokens whose labels are listed
HEIGHT = 260  # pixels
PROBABILITY, MEAN = "probability of ", "mean probability"


@dataclass(frozen=True, eq=False)
class ModelOutputs:
    """What a model gives under A and under B: a sentence about it, the likeliest next tokens or labels, and how likely
    the tokens of the text are, if it says that."""

    sentence: str = ""
    candidates: "Sequence[Candidate]" = ()
    tokens: Sequence[str] = ()
    before: Float[np.ndarray, " tokens"] | None = None
    after: Float[np.ndarray, " tokens"] | None = None

    @property
    def quantities(self) -> Quantities:
        """The probability of each token of the text, and their mean, on both sides."""
        quantities: dict[str, float] = {}
        for side, values in zip(SIDES, (self.before, self.after), strict=True):
            if values is not None:
                quantities |= named_quantities(PROBABILITY, self.tokens, values, f" under {side}")
                quantities[f"{MEAN} under {side}"] = float(values.mean())
        return quantities


def model_output(state: MasksState) -> Iterator[Block]:
    """Yields what the model of a state says under both masks."""
    source, both = state.source, state.interventions
    assert isinstance(source, Model)
    work = 4 * source.forward_work
    yield Heading(_("What the model says under A and under B"))
    yield Computed(
        "model-output",
        partial(model_outputs, source, both),
        lambda: ("outputs of a model", source, *both),
        lambda _outputs: _("{model} reads the text under A and under B.", model=source.model().title),
        partial(_of_outputs, state),
        subject=source.subject,
        work=None if is_heavy(work) else work,
    )


def model_outputs(
    source: Model,
    interventions: tuple[Intervention, Intervention],
    progress: Callable[[float, ModelOutputs], object] | None = None,
) -> ModelOutputs:
    """Returns what a model gives under two interventions. Raises ValueError if it cannot be run under one of them.

    `progress` is called first with nothing that is known, so that nobody waits for it.
    """
    from attnviz.effects.intervention_run import token_probabilities  # with huggingface_hub

    if progress:
        progress(0.0, ModelOutputs())
    model = source.model()
    inputs = model.encode(*source.example)
    before, after = (
        model.output(inputs) if each.is_empty else intervened_run(source, each).output for each in interventions
    )
    assert before is not None
    assert after is not None
    outputs = _with_sentence(source, interventions, before, after)
    tokens = inputs.source.tokens
    if model.outputs != "next token" or model.is_encoder_decoder or not 1 < len(tokens) <= MOST_TOKENS:
        return outputs
    probabilities = [token_probabilities(model, inputs, each).numpy() for each in interventions]
    return replace(outputs, tokens=tokens[1:], before=probabilities[0], after=probabilities[1])


def _with_sentence(
    source: Model, interventions: tuple[Intervention, Intervention], before: Tensor, after: Tensor
) -> ModelOutputs:
    from attnviz.effects import intervention_run as runs  # with huggingface_hub

    model = source.model()
    if model.outputs == "token labels":
        labels, tokens = runs.token_labels(model, before, after), model.encode(*source.example).source.tokens
        return ModelOutputs(token_label_sentence(labels, tokens))
    if model.outputs == "labels" and len(before) == 1:
        scores = {"before": fixed(float(before), 3), "after": fixed(float(after), 3)}
        return ModelOutputs(_("The model’s score is {before} under A and {after} under B.", **scores))
    if model.outputs == "sentence vector" and source.pair.strip():
        text, pair = source.text, source.pair
        cosines = [runs.sentence_similarity(model, [each], text, pair)[1] for each in interventions]
        return ModelOutputs(similarity_sentence(*cosines))
    if model.outputs == "sentence vector":
        return ModelOutputs(vector_sentence(runs.cosine(before, after)))
    likeliest = runs.likeliest_tokens if model.outputs == "next token" else runs.likeliest_labels
    candidates, bits = likeliest(model, before, after), None
    if not runs.has_many_labels(model):
        bits = runs.kl_divergence(before, after)
    kind = _("next token") if model.outputs == "next token" else _("label")
    return ModelOutputs(candidate_sentence(candidates, bits, kind), candidates)


def _of_outputs(state: MasksState, outputs: ModelOutputs) -> Iterator[Block]:
    """Yields a sentence about the outputs, the likeliest next tokens or labels, and the tokens of the text."""
    if not outputs.sentence:
        yield Summary("", None)  # where it will stand
        return
    yield Summary(outputs.sentence, lambda: outputs.quantities)
    yield from (Note(note) for note in _notes(state))
    columns = [available(_candidates(state, outputs))] if outputs.candidates else []
    columns += [[*_text_tokens(outputs)]] if outputs.before is not None else []
    if columns:
        yield Columns([(1 / len(columns), blocks) for blocks in columns])


def _notes(state: MasksState) -> Iterator[str]:
    """Yields what of the maps above the model does not have, and in which layers it has the masks."""
    count = len(state.model_layers)
    layers = plural("{count} layer", "{count} layers", count, count=count)
    if state.laid_over:
        yield _("The model has A, or B, laid over its own masks in {layers}.", layers=layers)
    else:
        yield _("The model has A, or B, in place of its own masks in {layers}.", layers=layers)
    own, changed = own_mechanism(state), state.interventions[0]
    if state.biases_a != own.biases or state.biases_b != own.biases:
        yield _("It keeps its own biases.")
    if state.score != own.score and changed.score is None:
        yield _("It keeps its own score: that of the maps has weights that it was not trained with.")


def _candidates(state: MasksState, outputs: ModelOutputs) -> Iterator[Block]:
    candidates = outputs.candidates
    before, after = (np.array([getattr(one, side) for one in candidates], dtype="f4") for side in ("before", "after"))
    title = _("The likeliest next tokens") if _is_decoder(state) else _("The likeliest labels")
    yield from _bars(title, "model-next", [one.text for one in candidates], before, after)
    read = text_of_model(state.source)
    if read is None or not state.interventions[0].is_empty:
        return  # Why is about the model as it was trained
    first, second = nlargest(2, candidates, key=lambda one: one.before)
    word, other = (visible(one.text.strip(" ") or one.text) for one in (first, second))
    text = _("Why “{word}” rather than “{other}”, as trained?", word=word, other=other)
    yield Paragraph(Anchor(text, read.token_link(first.index, second.index), "why", "attnviz-page-link"))


def _is_decoder(state: MasksState) -> bool:
    assert isinstance(state.source, Model)
    return state.source.model().outputs == "next token"


def _text_tokens(outputs: ModelOutputs) -> Iterator[Block]:
    """Yields the probabilities of the tokens of the text on both sides, of those that change most."""
    before, after = outputs.before, outputs.after
    assert before is not None
    assert after is not None
    changed = np.sort(np.argsort(-np.abs(after - before), kind="stable")[:MOST_KEYS])
    tokens = [outputs.tokens[i] for i in changed]
    yield from _bars(_("The tokens of the text"), "model-text", tokens, before[changed], after[changed])
    means = {"before": number(float(before.mean())), "after": number(float(after.mean()))}
    text = _(
        "How likely each token is to the model, from those before it: {before} on average under A, {after} under B."
    )
    yield Paragraph(text.format(**means), "attnviz-note attnviz-finding")


def _bars(
    title: str, name: str, texts: Sequence[str], before: Float[np.ndarray, " texts"], after: Float[np.ndarray, " texts"]
) -> Iterator[Block]:
    sentences = [
        _("{text}: {before} under A, {after} under B", text=visible(text), before=number(one), after=number(other))
        for text, one, other in zip(texts, before.tolist(), after.tolist(), strict=True)
    ]
    picture = bars(before, after, texts, SIDES, sentences=sentences)
    picture.figure.update_yaxes(title_text=_("probability"))
    yield Heading(title)
    yield Figure(picture.with_about(label=title), name, HEIGHT)


# Sentences


def candidate_sentence(candidates: "Sequence[Candidate]", bits: float | None, kind: str) -> str:
    """Returns a sentence about the likeliest next token or label under A and under B, and how far apart both
    distributions are."""
    old, new = max(candidates, key=lambda one: one.before), max(candidates, key=lambda one: one.after)
    if old is new:
        sentence = _(
            "Under A and under B the likeliest {kind} is “{text}”, with {before} and {after}.",
            kind=kind,
            text=visible(old.text),
            before=number(old.before),
            after=number(old.after),
        )
    else:
        sentence = _(
            "Under A the likeliest {kind} is “{old}”, with {old_before} ({old_after} under B); under B it is “{new}”, "
            "with {new_after} ({new_before} under A).",
            kind=kind, old=visible(old.text), old_before=number(old.before), old_after=number(old.after),
            new=visible(new.text), new_after=number(new.after), new_before=number(new.before),
        )  # fmt: skip
    if bits is None:
        return sentence
    kl = _("KL(A ‖ B) is {bits} bits.", bits=number(bits) if isfinite(bits) else _("infinitely many"))
    return f"{sentence} {kl}"


def token_label_sentence(labels: "Sequence[TokenLabel]", tokens: Sequence[str]) -> str:
    """Returns a sentence about the likeliest labels of tokens under A and under B."""
    others = [one for one in labels if one.before != one.after]
    if not others:
        return _("Each token has the same likeliest label under A and under B.")
    listed = [
        f"{visible(tokens[one.position])} ({visible(one.before)} → {visible(one.after)})" for one in others[:LISTED]
    ]
    end = ", …" if len(others) > LISTED else "."
    return plural(
        "{count} of {tokens} tokens has another likeliest label under B: {labels}",
        "{count} of {tokens} tokens have other likeliest labels under B: {labels}",
        len(others),
        count=len(others),
        tokens=len(labels),
        labels=", ".join(listed) + end,
    )


def vector_sentence(angle: float) -> str:
    """Returns a sentence about the vectors of a sentence under A and under B."""
    return _("The vector of the sentence under A and that under B have a cosine of {angle}.", angle=fixed(angle, 3))


def similarity_sentence(before: float, after: float) -> str:
    """Returns a sentence about the similarity of two sentences under A and under B."""
    return _(
        "The two sentences, each read by itself, have vectors with a cosine of {before} under A and {after} under B.",
        before=fixed(before, 3),
        after=fixed(after, 3),
    )


if TYPE_CHECKING:
    from attnviz.effects.intervention_run import InterventionRun


def intervened_run(example: Model, intervention: Intervention) -> "InterventionRun":
    """Runs the model of an example under an intervention. Raises ValueError if that is not possible, or takes too much
    work."""
    from attnviz.effects.intervention_run import intervened_layers, run_with_interventions  # with huggingface_hub

    before = example.layers()
    changed = [
        replace(before[i], mechanism=intervention.apply(before[i].known_mechanism, i))
        for i in intervened_layers([intervention], before)
        if intervention.changes_mechanism(i)
    ]
    advice = _("Use a shorter text.") if len(changed) < 2 else _("Change fewer layers, or use a shorter text.")
    check_work(heads_work(changed), _("To compute the changed layers"), advice)
    return run_with_interventions(example.model(), [intervention], *example.example)
