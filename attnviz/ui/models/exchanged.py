"""A model run with its attention exchanged, and what is said of its output."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from math import isfinite

import numpy as np
import streamlit as st
from jaxtyping import Float
from torch import Tensor

from attnviz.figures.sentences import number, visible
from attnviz.inputs import Layer
from attnviz.sources.models.changed import (
    Changed,
    Exchange,
    Next,
    changed,
    cosine,
    divergence,
    likeliest,
    moved,
    similarity,
)
from attnviz.sources.translator.model import Change
from attnviz.ui.models.asked import Example
from attnviz.ui.view import MOST_WORK, cost

UNCHANGED = "Nothing is changed. Try one of the changes above, or make one of your own."
NEITHER = "{name} gives neither a next token nor a vector of a sentence, so it is the maps that show the change."


@dataclass(frozen=True)
class Ask(Example):
    """An example under an exchange."""

    exchange: Exchange = field(default_factory=Exchange)

    @classmethod
    def of(cls, example: Example, exchange: Exchange) -> "Ask":
        return cls(**{one.name: getattr(example, one.name) for one in fields(example)}, exchange=exchange)

    def layers(self) -> list[Layer]:
        return ran(self).layers


@dataclass(frozen=True, eq=False)
class Ran:
    """What became of an example under an exchange."""

    layers: list[Layer]
    moved: Float[np.ndarray, "layers heads"]  # of each head's attention, NaN where a layer has no such head
    said: str  # of the output, in a sentence
    next: list[Next]  # the likeliest tokens, where the output is a token


def ran(ask: Ask) -> Ran:
    """The run, computed once for all who ask. Raises ValueError, in words, where it cannot be done."""
    return _ran(ask, repr(ask))


@st.cache_resource(max_entries=4, show_spinner="Running the model …")
def _ran(_ask: Ask, asked: str) -> Ran:
    model, exchange = _ask.model(), _ask.exchange
    given = _ask.text, _ask.pair, _ask.image.data if _ask.image else None
    before = model.layers(*given)
    output = model.output(model.reading(*given)) if model.outputs else None
    if exchange.change == Change():
        result, said = Changed(before, output), UNCHANGED
    else:
        _check_cost(before, exchange)
        result = changed(model, exchange, *given)
        said = _said(_ask, output, result.output)
    share = np.full((len(before), max(layer.inputs.heads for layer in before)), np.nan, dtype="f4")
    for i, both in enumerate(zip(before, result.layers, strict=True)):
        share[i, : both[0].inputs.heads] = 0 if both[0] is both[1] else moved(*both).numpy()
    tokens: list[Next] = []
    if output is not None and result.output is not None and model.outputs == "next token":
        tokens = likeliest(model, output, result.output)
    return Ran(result.layers, share, said, tokens)


def _check_cost(layers: Sequence[Layer], exchange: Exchange) -> None:
    """Refuses what would keep a core busy for long: every layer's heads are computed twice, and compared."""
    work = cost(layers, [exchange.of(layer.mechanism, i) for i, layer in enumerate(layers)])
    if work > MOST_WORK:
        raise ValueError(
            f"To run the model so would take {work:,} steps; at most {MOST_WORK:,} are done for one picture. "
            "Take a shorter text, or another score."
        )


# What is said of the output


def _said(ask: Ask, before: Tensor | None, after: Tensor | None) -> str:
    model = ask.model()
    if before is None or after is None:
        return NEITHER.format(name=model.name)
    if model.outputs == "next token":
        return of_tokens(likeliest(model, before, after), divergence(before, after))
    if ask.pair.strip():
        return of_similarity(*similarity(model, ask.exchange, ask.text, ask.pair))
    return of_vector(cosine(before, after))


def of_tokens(tokens: Sequence[Next], bits: float) -> str:
    """What becomes of the next token."""
    was, now = max(tokens, key=lambda one: one.before), max(tokens, key=lambda one: one.after)
    if was is now:
        told = f"The likeliest next token stays “{visible(was.token)}”: {number(was.before)} before, "
        told += f"{number(was.after)} with the change."
    else:
        told = f"The likeliest next token was “{visible(was.token)}” ({number(was.before)}, and {number(was.after)} "
        told += f"with the change); now it is “{visible(now.token)}” ({number(now.after)})."
    return f"{told} KL(as it is ‖ changed) is {number(bits) if isfinite(bits) else 'infinitely many'} bits."


def of_vector(angle: float) -> str:
    """What becomes of the vector of a sentence."""
    return (
        f"The vector of the sentence has a cosine of {_cosine(angle)} with the vector that it has without the change."
    )


def of_similarity(before: float, after: float) -> str:
    """What becomes of the similarity of two sentences."""
    return (
        f"The two sentences, each read by itself, have vectors with a cosine of {_cosine(before)}; with the change it "
        f"is {_cosine(after)}."
    )


def _cosine(value: float) -> str:
    return f"{value:.3f}".replace("-", "−")
