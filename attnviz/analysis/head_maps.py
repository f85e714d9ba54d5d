"""What the weights of heads say, looked at one head at a time, so that no more than one head's map is held."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attnviz.inputs import Inputs
from attnviz.mechanism import Mechanism

Special = Literal["shown", "hidden", "rescaled"]
Together = Literal["mean", "maximum", "minimum"]
Map = Float[Tensor, "queries keys"]


def kept(count: int, special: Sequence[int], how: Special) -> list[int]:
    """The positions that are looked at: all, or those that hold no special token."""
    return [i for i in range(count) if how == "shown" or i not in special]


def head_map(
    inputs: Inputs, mechanism: Mechanism, head: int, special: Special = "shown", rows: slice = slice(None)
) -> Float[Tensor, "queries keys"]:
    """The weights of one head, NaN where not allowed; of the queries in `rows`, all of them unless it says which.

    Special tokens are shown, or hidden with the other weights as they are, or hidden and each row rescaled to the
    sum that it had with them (a row that lay on special tokens alone stays zero; negative weights have no share to
    scale, so with them nothing is rescaled).
    """
    attention = mechanism(inputs, heads=[head], rows=rows)
    if special == "shown":
        return torch.where(attention.allowed[0], attention.weights[0], torch.nan)
    seen = [i for i, place in enumerate(range(inputs.queries)[rows]) if place not in inputs.special_queries]
    keys = kept(inputs.keys, inputs.special_keys, special)
    weights = attention.weights[0][seen]
    total, weights = weights.sum(-1, keepdim=True), weights[:, keys]
    if special == "rescaled" and not mechanism.normalizer.negative:
        rest = weights.sum(-1, keepdim=True)
        weights = torch.where(rest > 0, weights / rest * total, 0)  # in this order no tiny rest overflows
    return torch.where(attention.allowed[0][seen][:, keys], weights, torch.nan)


def heads_map(
    inputs: Inputs, mechanism: Mechanism, how: Together, special: Special = "shown", rows: slice = slice(None)
) -> Float[Tensor, "queries keys"]:
    """The mean, the maximum or the minimum of all heads' weights, cell by cell; NaN where no head is allowed to look.

    A head that is not allowed there counts as weight 0. Of the queries in `rows`, all of them unless it says which.
    """
    return over((head_map(inputs, mechanism, head, special, rows) for head in range(inputs.heads)), how)


def over(maps: Iterable[Map], how: Together) -> Map:
    """The mean, the maximum or the minimum of maps of one shape, cell by cell; NaN where all of them have NaN.

    Where only some have NaN, they count as weight 0. The maps are looked at one after the other.
    """
    maps = iter(maps)
    one, count = next(maps), 1
    allowed, whole = ~one.isnan(), one.nan_to_num(0)
    for one in maps:
        allowed, whole, count = allowed | ~one.isnan(), _OVER[how](whole, one.nan_to_num(0)), count + 1
    return torch.where(allowed, whole / count if how == "mean" else whole, torch.nan)


_OVER: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "mean": torch.add,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
}


def strongest(weights: Float[Tensor, " keys"], count: int = 5) -> list[tuple[int, float]]:
    """The keys that get most of one query's attention, with their weights, the greatest first."""
    order = weights.nan_to_num(nan=-torch.inf).argsort(descending=True, stable=True)[:count]
    return [(int(key), float(weights[key])) for key in order if not weights[key].isnan()]


@dataclass(frozen=True)
class Row:
    """What one query's weights add up to, and how they are spread."""

    total: float
    nonzero: int
    entropy: float | None  # in bits, of the row scaled to add up to 1; None where a weight is negative or all are 0
    negative: bool

    @property
    def keys(self) -> float | None:
        """So many keys with equal weights would be as spread: 2 to the entropy."""
        return None if self.entropy is None else 2**self.entropy


def row(weights: Float[Tensor, " keys"]) -> Row:
    """The sum, the spread (Shannon entropy) and the count of one query's weights; NaN is not allowed and counts 0."""
    exact = weights.nan_to_num(0).double()
    total, negative = float(exact.sum()), bool((exact < 0).any())
    entropy = None
    if total > 0 and not negative:
        share = exact[exact > 0] / total
        entropy = max(0.0, float(-(share * share.log2()).sum()))
    return Row(total, int((exact != 0).sum()), entropy, negative)


def outside(weights: Float[Tensor, "queries keys"]) -> float:
    """The share of attention that lies on keys not shown, on average over the queries that look at one shown."""
    looking = ~weights.isnan().all(-1)
    return float(1 - weights[looking].nan_to_num(0).sum(-1).mean()) if bool(looking.any()) else 0.0


def empty_rows(weights: Float[Tensor, "queries keys"]) -> list[int]:
    """The queries that may look at none of the keys shown."""
    rows: Bool[Tensor, " queries"] = weights.isnan().all(-1)
    return rows.nonzero().flatten().tolist()
