"""Head maps: the weights of one head, or of several heads as one, between the shown queries and keys."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attnviz.base.language import N_, value_error
from attnviz.inputs import MapAxes
from attnviz.layer import FixedWeights
from attnviz.mechanism import Mechanism


class Special(StrEnum):
    """How a map treats the special tokens that a tokenizer adds, such as [CLS]."""

    SHOWN = "shown"
    HIDDEN = "hidden"  # the other weights stay as they are
    RESCALED = "rescaled"  # hidden, and each row is scaled to the sum that it had with them


class Aggregate(StrEnum):
    """How several heads are aggregated into one map, cell by cell."""

    MEAN = N_("mean")
    MAXIMUM = N_("maximum")
    MINIMUM = N_("minimum")


class Rollout(StrEnum):
    """How several layers are one map."""

    ROLLOUT = N_("rollout")


HeadChoice = int | Aggregate | Rollout  # a head's index, all heads of the layer as one, or those of all layers up to it
Map = Float[Tensor, "queries keys"]


def shown_positions(count: int, special_positions: Sequence[int], special: Special) -> list[int]:
    """Returns the positions that a map shows: all, or those without a special token.

    Example:
        >>> shown_positions(4, (0, 3), Special.HIDDEN)
        [1, 2]
    """
    return [i for i in range(count) if special == Special.SHOWN or i not in special_positions]


def head_map(
    inputs: MapAxes,
    mechanism: Mechanism | FixedWeights,
    head: HeadChoice,
    special: Special = Special.SHOWN,
    rows: slice = slice(None),
) -> Map:
    """Returns the weights of one head, or of all heads as one, for the queries in `rows`; NaN where not allowed.

    Several heads are aggregated as `aggregate_maps` does. A rescaled row that lies on special tokens alone stays
    zero, and where weights may be negative nothing is rescaled. Raises ValueError for a rollout.

    Shapes: (shown queries in `rows`, shown keys).

    Example:
        >>> from attnviz.inputs import Inputs
        >>> inputs = Inputs(*torch.zeros(3, 2, 4, 8), tuple("abcd"), tuple("abcd"))
        >>> head_map(inputs, Mechanism(), 0)[0]
        tensor([0.2500, 0.2500, 0.2500, 0.2500])
        >>> head_map(inputs, Mechanism(), Aggregate.MEAN, rows=slice(2)).shape
        torch.Size([2, 4])
    """
    if isinstance(head, Rollout):
        raise value_error("A rollout is a map of several layers, and this is one of them.")
    if isinstance(head, Aggregate):
        return aggregate_maps((head_map(inputs, mechanism, i, special, rows) for i in range(inputs.heads)), head)
    return maps_of_heads(inputs, mechanism, [head], special, rows)[0]


def maps_of_heads(
    inputs: MapAxes,
    mechanism: Mechanism | FixedWeights,
    heads: slice | Sequence[int] = slice(None),
    special: Special = Special.SHOWN,
    rows: slice = slice(None),
) -> Float[Tensor, "heads queries keys"]:
    """Returns the maps of several heads, by default of all, in one computation; each as `head_map` returns it.

    Example:
        >>> from attnviz.inputs import Inputs
        >>> inputs = Inputs(*torch.zeros(3, 2, 4, 8), tuple("abcd"), tuple("abcd"))
        >>> maps_of_heads(inputs, Mechanism()).shape
        torch.Size([2, 4, 4])
    """
    maps = mechanism(inputs, heads=heads, rows=rows).maps
    if special == Special.SHOWN:
        return maps
    queries = [i for i, q in enumerate(range(inputs.queries)[rows]) if q not in inputs.special_queries]
    whole = maps[:, queries]
    maps = whole[..., shown_positions(inputs.keys, inputs.special_keys, special)]
    if special == Special.RESCALED and not (isinstance(mechanism, Mechanism) and mechanism.normalizer.negative):
        total, rest = (one.nansum(-1, keepdim=True) for one in (whole, maps))
        scaled = torch.where(rest > 0, maps / rest * total, 0 * maps)  # in this order a tiny rest does not overflow
        maps = torch.where((whole < 0).any(-1, keepdim=True), maps, scaled)
    return maps


def aggregate_maps(maps: Iterable[Map], aggregate: Aggregate) -> Map:
    """Returns the mean, maximum or minimum of maps of one shape, cell by cell; NaN where all of them have NaN.

    Where only some have NaN, these count as weight 0. Only one map is held at a time.

    Example:
        >>> aggregate_maps([torch.tensor([[1.0, torch.nan]]), torch.tensor([[0.5, torch.nan]])], Aggregate.MEAN)
        tensor([[0.7500,    nan]])
    """
    maps = iter(maps)
    first, count = next(maps), 1
    allowed, result = ~first.isnan(), first.nan_to_num(0)
    for one in maps:
        allowed, result, count = allowed | ~one.isnan(), _COMBINE[aggregate](result, one.nan_to_num(0)), count + 1
    return torch.where(allowed, result / count if aggregate == Aggregate.MEAN else result, torch.nan)


_COMBINE: dict[Aggregate, Callable[[Tensor, Tensor], Tensor]] = {
    Aggregate.MEAN: torch.add,
    Aggregate.MAXIMUM: torch.maximum,
    Aggregate.MINIMUM: torch.minimum,
}


def strongest_keys(weights: Float[Tensor, " keys"], count: int = 5) -> list[tuple[int, float]]:
    """Returns the keys with the largest weights of one query, largest first, with their weights."""
    order = weights.nan_to_num(nan=-torch.inf).argsort(descending=True, stable=True)[:count]
    return [(int(key), float(weights[key])) for key in order if not weights[key].isnan()]


@dataclass(frozen=True)
class RowSummary:
    """The sum and the spread of one query's weights."""

    total: float
    nonzero: int
    allowed: int  # keys that are not masked
    entropy: float | None  # in bits, of the row scaled to add up to 1; None where a weight is negative or all are 0
    negative: bool

    @property
    def keys(self) -> float | None:
        """The effective number of keys: 2 to the power of the entropy."""
        return None if self.entropy is None else 2**self.entropy


def row_summary(weights: Float[Tensor, " keys"]) -> RowSummary:
    """Returns the sum, the Shannon entropy and the number of keys of one query's weights; NaN is a masked key."""
    exact = weights.nan_to_num(0).double()
    total, negative = float(exact.sum()), bool((exact < 0).any())
    entropy = None
    if total > 0 and not negative:
        share = exact[exact > 0] / total
        entropy = max(0.0, float(-(share * share.log2()).sum()))
    return RowSummary(total, int((exact != 0).sum()), int((~weights.isnan()).sum()), entropy, negative)


def hidden_mass(weights: Float[Tensor, "queries keys"]) -> float:
    """Returns the share of attention on hidden keys, averaged over the shown queries."""
    looking = ~weights.isnan().all(-1)
    return float(1 - weights[looking].nan_to_num(0).sum(-1).mean()) if bool(looking.any()) else 0.0


def empty_rows(weights: Float[Tensor, "queries keys"]) -> list[int]:
    """Returns the queries that may attend to none of the shown keys."""
    rows: Bool[Tensor, " queries"] = weights.isnan().all(-1)
    return rows.nonzero().flatten().tolist()
