"""What an attribution is of: a number that a model computes, as a function of one linearized run."""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from torch import Tensor


@dataclass(frozen=True)
class Logit:
    """The logit of a token at a position; of a label, where the output has no positions."""

    token: int
    position: int = -1


@dataclass(frozen=True)
class LogitDifference:
    """The logit of a token above that of another one, or above the mean of all that are finite."""

    token: int
    other: int | Literal["mean"]
    position: int = -1


@dataclass(frozen=True)
class Score:
    """The score of a key for a query of a head: alone, above that of the key `over`, or above the mean of all keys that
    the query may look at.

    One side is held: with `side="key"` the query is what it is in this run, and the sum is over what wrote the key.
    """

    layer: int
    head: int
    query: int
    key: int
    over: int | Literal["mean"] | None = None
    side: Literal["key", "query"] = "key"


@dataclass(frozen=True, eq=False)
class Activation:
    """The product of the residual stream and a direction (width,) at a position.

    `layer` counts as `output_hidden_states` of transformers does: 0 are the embeddings.
    """

    layer: int
    position: int
    direction: Tensor = field(repr=False)


@dataclass(frozen=True, eq=False)
class CarriedValue:
    """What a head carries from a source position to a position, along a direction (width of a head,)."""

    layer: int
    head: int
    position: int
    source: int
    direction: Tensor = field(repr=False)


Metric: TypeAlias = Logit | LogitDifference | Score | Activation | CarriedValue
