"""Attention as a soft dictionary: keys in the plane, each with a word and a value, and a query that looks them up.

The exact dictionary is a mechanism too: only its score and its normalizer differ from attention's.
"""

import math
import re
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attnviz.base.formatting import significant
from attnviz.base.language import N_, value_error
from attnviz.inputs import Inputs
from attnviz.mechanism import Mechanism
from attnviz.normalizers import Hard, Identity, Normalizer, Softmax, Uniform
from attnviz.scores import Score

SIDE = 2.0  # keys and queries lie in the square from −SIDE to SIDE
LARGEST_VALUE = 1000.0
LONGEST_WORD = 20  # characters
FEWEST_ENTRIES, MOST_ENTRIES = 2, 8  # entries
CELLS = 120  # of the plane's grid along a side
NEAR = 1e-9  # the distance from a query at which a jump of the result is looked for
Point = tuple[float, float]


@dataclass(frozen=True)
class Exact(Score):
    """1 where the query equals the key, and 0 elsewhere.

    Of several equal keys only the last one scores 1, as in a Python dictionary.
    """

    def __call__(
        self, query: Float[Tensor, "*batch queries d_q"], key: Float[Tensor, "*batch keys d_k"]
    ) -> Float[Tensor, "*batch queries keys"]:
        equal = (query.unsqueeze(-2) == key.unsqueeze(-3)).all(-1).to(query.dtype)
        from_here_on = equal.flip(-1).cumsum(-1).flip(-1)
        return equal * (from_here_on == 1)


# From the dictionary to weights that no longer depend on the query.
EXACT = N_("exact match")
SOFTNESS: dict[str, Normalizer] = {
    EXACT: Identity(),
    N_("hard"): Hard(),
    **{f"T = {temperature:g}": Softmax(temperature) for temperature in (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)},
    N_("uniform"): Uniform(),
}


def lookup_mechanism(softness: str, score: Score) -> Mechanism:
    """Returns the mechanism of one level of SOFTNESS; at EXACT it is the dictionary, whatever the score."""
    return Mechanism(score=Exact() if softness == EXACT else score, normalizer=SOFTNESS[softness])


@dataclass(frozen=True)
class Entry:
    """A key, which is a point of the plane with a word for it, and its value; numbers have four decimals in a link.

    Raises ValueError if the word is empty or too long, or a number is out of range.
    """

    word: str
    x: float
    y: float
    value: float

    def __post_init__(self) -> None:
        if not 0 < len(self.word.strip()) <= LONGEST_WORD or ";" in self.word or not self.word.isprintable():
            raise value_error(
                "A word has 1 to {LONGEST_WORD} visible characters and no semicolon, not “{word}”. Write another one.",
                LONGEST_WORD=LONGEST_WORD,
                word=self.word[:40],
            )
        for name, number, largest in (("x", self.x, SIDE), ("y", self.y, SIDE), ("value", self.value, LARGEST_VALUE)):
            if not abs(number) <= largest:
                raise value_error(
                    "The {name} of {word} must be a number from −{largest:g} to {largest:g}; it is {number}.",
                    name=name,
                    word=self.word,
                    largest=largest,
                    number=significant(number),
                )

    def __str__(self) -> str:
        return ",".join([*(f"{round(number, 4):.8g}" for number in (self.x, self.y, self.value)), self.word])


@dataclass(frozen=True)
class Dictionary:
    """A few keys and their values. Raises ValueError if there are too few or too many.

    Its text is what a link holds: “x,y,value,word”, with semicolons between entries.

    Example:
        >>> table = Dictionary.parse("1.5,0.5,4,cat;0.4,1.5,2,hen")
        >>> table.words
        ('cat', 'hen')
        >>> str(table)
        '1.5,0.5,4,cat;0.4,1.5,2,hen'
    """

    entries: tuple[Entry, ...]

    def __post_init__(self) -> None:
        if not FEWEST_ENTRIES <= len(self.entries) <= MOST_ENTRIES:
            raise value_error(
                "The table must have {fewest} to {most} rows; it has {count}. Add or delete some.",
                fewest=FEWEST_ENTRIES,
                most=MOST_ENTRIES,
                count=len(self.entries),
            )

    @classmethod
    def parse(cls, text: str) -> "Dictionary":
        """Returns the dictionary written in a text. Raises ValueError for any other text."""
        return cls(tuple(_parse_entry(part) for part in text.split(";")))

    def __str__(self) -> str:
        return ";".join(map(str, self.entries))

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(entry.word for entry in self.entries)

    @property
    def keys(self) -> Float[Tensor, "keys 2"]:
        return torch.tensor([(entry.x, entry.y) for entry in self.entries], dtype=torch.float64)

    @property
    def values(self) -> Float[Tensor, " keys"]:
        return torch.tensor([entry.value for entry in self.entries], dtype=torch.float64)

    def inputs(self, queries: Float[Tensor, "queries 2"]) -> Inputs:
        """Returns the inputs of one head; in float64, because float32 has no exact tenths."""
        names = ("query",) * len(queries)
        return Inputs(queries[None], self.keys[None], self.values[None, :, None], names, self.words)


@dataclass(frozen=True)
class LookupResult:
    """The result of one query, with the intermediate numbers in the order of the entries."""

    similarities: tuple[float, ...]
    weights: tuple[float, ...]
    products: tuple[float, ...]  # weight × value
    result: float | None  # the sum of the products; None if all weights are 0, so that nothing comes back


def look_up(dictionary: Dictionary, query: Point, mechanism: Mechanism) -> LookupResult:
    """Returns the result of looking up a query in a dictionary.

    Example:
        >>> table = Dictionary.parse("1.5,0.5,4,cat;0.4,1.5,2,hen")
        >>> look_up(table, (1.5, 0.5), lookup_mechanism(EXACT, Exact())).result
        4.0
        >>> look_up(table, (1.0, 1.0), lookup_mechanism("uniform", Exact())).result
        3.0
    """
    attention = mechanism(dictionary.inputs(_points(query)))
    weights = attention.weights[0, 0]
    return LookupResult(
        similarities=tuple(attention.raw[0, 0].tolist()),
        weights=tuple(weights.tolist()),
        products=tuple((weights * dictionary.values).tolist()),
        result=attention.output.item() if weights.any() else None,
    )


def lookup_gradient(dictionary: Dictionary, query: Point, mechanism: Mechanism) -> Point | None:
    """Returns the gradient of the result with respect to the query, by autograd; None if the result is discontinuous
    there.

    It is (0, 0) for normalizers that select keys, whose result is constant near the query.
    """
    if _jumps(dictionary, query, mechanism):
        return None
    point = _points(query).requires_grad_()
    result = mechanism(dictionary.inputs(point)).output
    if not result.requires_grad:
        return 0.0, 0.0
    [slope] = torch.autograd.grad(result.sum(), point)
    return slope[0, 0].item(), slope[0, 1].item()


@dataclass(frozen=True, eq=False)
class LookupGrid:
    """The results of a grid of queries: y along rows, x along columns."""

    axis: Float[Tensor, " n"]
    scores: Float[Tensor, "n n keys"]
    weights: Float[Tensor, "n n keys"]
    result: Float[Tensor, "n n"]  # NaN where nothing comes back


def look_up_grid(dictionary: Dictionary, mechanism: Mechanism) -> LookupGrid:
    """Looks up a grid of queries over the plane."""
    axis = ((2 * torch.arange(CELLS, dtype=torch.float64) + 1) / CELLS - 1) * SIDE
    # A hair off, because keys of round numbers tie along whole lines through round numbers.
    y, x = torch.meshgrid(axis + 1.7e-6, axis + 1e-6, indexing="ij")
    attention = mechanism(dictionary.inputs(torch.stack([x, y], dim=-1).flatten(0, 1)))
    scores, weights, result = (
        stage[0].unflatten(0, x.shape) for stage in (attention.scores, attention.weights, attention.output)
    )
    return LookupGrid(axis, scores, weights, torch.where(_has_weight(weights), result[..., 0], torch.nan))


def _has_weight(weights: Float[Tensor, "*queries keys"]) -> Bool[Tensor, "*queries"]:
    return (weights != 0).any(-1)


def _points(*points: Point) -> Float[Tensor, "points 2"]:
    return torch.tensor(points, dtype=torch.float64)


def _jumps(dictionary: Dictionary, query: Point, mechanism: Mechanism) -> bool:
    """Returns whether the result is discontinuous at this query."""
    ring = [(math.cos(turn * math.pi / 8), math.sin(turn * math.pi / 8)) for turn in range(16)]
    around = [query, *((query[0] + NEAR * x, query[1] + NEAR * y) for x, y in ring)]
    attention = mechanism(dictionary.inputs(_points(*around)))
    result, has_result = attention.output[0, :, 0], _has_weight(attention.weights[0])
    span = dictionary.values.abs().max()
    return bool(has_result.any() and not has_result.all()) or bool(result.max() - result.min() > 1e-4 * span)


def _parse_entry(text: str) -> Entry:
    *numbers, word = text.strip().split(",", maxsplit=3)
    if len(numbers) != 3 or not all(re.fullmatch(r"\s*[+-]?\d{1,9}(\.\d{1,4})?\s*", number) for number in numbers):
        raise value_error(
            "An entry is expected as x,y,value,word, such as 1.5,0.5,4,cat; “{text}” is not one.", text=text[:40]
        )
    return Entry(word.strip(), *map(float, numbers))
