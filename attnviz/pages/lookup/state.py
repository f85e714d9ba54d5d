"""What a link to Lookup says."""

from collections.abc import Callable
from typing import Any

import torch

from attnviz.base.language import N_
from attnviz.figures.plane import Colored
from attnviz.mechanism import Mechanism
from attnviz.page.fields import ChoiceField, FlagField, NumberField, ParsedField, ScaleField
from attnviz.page.parts import by_title
from attnviz.page.state import State
from attnviz.pages.lookup.dictionary import (
    SIDE,
    SOFTNESS,
    Dictionary,
    Entry,
    LookupResult,
    Point,
    look_up,
    lookup_mechanism,
)
from attnviz.scores import Additive, Cosine, Dot, General, ScaledDot, Score

EXAMPLE = Dictionary(
    (
        Entry("cat", 1.5, 0.5, 5.0),
        Entry("hen", 0.4, 1.5, 2.0),
        Entry("snake", -1.4, 0.7, 0.0),
        Entry("ant", -0.8, -1.1, 6.0),
        Entry("spider", 0.9, -1.2, 8.0),
    )
)
FIRST_QUERY: Point = (1.5, 0.5)
SIMILARITIES: dict[str, type[Score]] = by_title((ScaledDot, Dot, General, Additive, Cosine))
COLORINGS: dict[str, Colored] = {N_("winning key"): "key", N_("value that comes back"): "value"}
W = ((0.2, -1.0), (1.0, 0.2))  # turns a query to the right
LARGEST_W, LARGEST_SEED, SEED = 3.0, 9999, 2
ABOUT_W = N_("qW, the query in the key space, is compared.")
ABOUT_SEED_OF_WEIGHTS = N_("W_q, W_k and v are drawn at random; training would set them.")


def weight_field(row: int, column: int) -> NumberField:
    label = f"W{' ₁₂'[row]}{' ₁₂'[column]}"
    return NumberField(label, W[row - 1][column - 1], -LARGEST_W, LARGEST_W, 6, when=is_score(General), about=ABOUT_W)


def is_score(kind: type[Score]) -> Callable[[Any], bool]:
    return lambda state: state.similarity is kind


def coordinate(label: str, start: float) -> NumberField:
    return NumberField(label, start, -SIDE, SIDE, 2)


class DictionaryField(ParsedField[Dictionary]):
    """A dictionary, whose rows are changed in place."""


class LookupState(State):
    """A dictionary, a query, and how it is looked up."""

    table = DictionaryField(
        N_("The table as text"),
        Dictionary.parse,
        EXAMPLE,
        place="hidden",
        about=N_("One entry after the other, as x,y,value,word with semicolons between them."),
    )
    query_x = coordinate(N_("Query x"), FIRST_QUERY[0])
    query_y = coordinate(N_("Query y"), FIRST_QUERY[1])
    softness = ScaleField(
        N_("How soft? Exact match → sharp → soft → uniform"),
        tuple(SOFTNESS),
        about=N_(
            "Exact match is the dictionary. Hard gives all weight to the most similar key. T is "
            "the temperature of the softmax: the higher, the softer. Uniform no longer looks at the query."
        ),
    )
    gradients = FlagField(
        N_("Gradients"),
        about=N_("How much the result changes when a number changes a little, back through the network."),
    )
    similarity = ChoiceField(
        N_("Similarity"),
        SIMILARITIES,
        about=N_(
            "**Scaled dot:** q · k / √2\n\n**Dot:** q · k\n\n**General:** (qW) · k\n\n"
            "**Additive:** vᵀ tanh(W_q q + W_k k)\n\n**Cosine:** cos(q, k)"
        ),
    )
    w11, w12 = weight_field(1, 1), weight_field(1, 2)
    w21, w22 = weight_field(2, 1), weight_field(2, 2)
    seed = NumberField(
        N_("Seed of its weights"), SEED, 0, LARGEST_SEED, when=is_score(Additive), about=ABOUT_SEED_OF_WEIGHTS
    )
    color = ChoiceField(
        N_("Color the plane by"),
        COLORINGS,
        about=N_("What every other query would get: which key has most of its weight, or which value comes back."),
    )

    @property
    def query(self) -> Point:
        return self.query_x, self.query_y

    @property
    def score(self) -> Score:
        """The similarity, with its weights."""
        if self.similarity is General:
            return General(torch.tensor([[self.w11, self.w12], [self.w21, self.w22]], dtype=torch.float64))
        return Additive(seed=int(self.seed)) if self.similarity is Additive else self.similarity()

    @property
    def mechanism(self) -> Mechanism:
        return lookup_mechanism(self.softness, self.score)

    @property
    def result(self) -> LookupResult:
        return look_up(self.table, self.query, self.mechanism)
