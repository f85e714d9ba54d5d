"""The difference of two maps of the same queries and keys, such as those of one head under two masks.

Maps have NaN where not allowed, as returned by `attnviz.analysis.head_maps.head_map`.
"""

from dataclasses import dataclass
from math import fsum

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from attnviz.base.formatting import dimensions
from attnviz.base.language import value_error

ArrayMap = Float[Tensor, "queries keys"] | Float[np.ndarray, "queries keys"]
WeightRow = Float[Tensor, " keys"] | Float[np.ndarray, " keys"]

# The possible changes of a cell; `outcomes` returns indices of this tuple.
OUTCOMES = ("neither", "kept", "re-weighted", "removed", "added")
NEITHER, KEPT, REWEIGHTED, REMOVED, ADDED = range(len(OUTCOMES))

# Weights are equal within this relative tolerance, eight times the precision of float32: a softmax over fewer keys sums
# in another order.
RELATIVE_TOLERANCE = 1e-6
# The absolute tolerance within which surviving weights have grown by one factor.
FACTOR_TOLERANCE = 1e-5
# A row that keeps less mass than this has too few digits in float32 to be rescaled and compared.
MIN_MASS = 1e-30


def outcomes(a: ArrayMap, b: ArrayMap) -> UInt8[Tensor, "queries keys"]:
    """Returns the outcome of each cell from map a to map b, as an index of OUTCOMES.

    0 masked in both, 1 kept with an equal weight (within RELATIVE_TOLERANCE), 2 kept but re-weighted, 3 removed (only a
    allows it), 4 added (only b allows it). Raises ValueError if the shapes differ.

    Example:
        >>> outcomes(torch.tensor([[0.5, 0.5]]), torch.tensor([[1.0, torch.nan]]))
        tensor([[2, 3]], dtype=torch.uint8)
    """
    a, b = _as_tensors(a, b)
    in_a, in_b = ~a.isnan(), ~b.isnan()
    same = (a - b).abs() <= RELATIVE_TOLERANCE * torch.maximum(a.abs(), b.abs()) + torch.finfo(torch.float32).tiny
    both = torch.where(same, KEPT, REWEIGHTED)
    one = torch.where(in_a, REMOVED, torch.where(in_b, ADDED, NEITHER))
    return torch.where(in_a & in_b, both, one).to(torch.uint8)


def outcome_counts(outcomes: UInt8[Tensor, "queries keys"]) -> dict[str, int]:
    """Returns the number of cells of each outcome, by its name in OUTCOMES.

    Example:
        >>> outcome_counts(torch.tensor([[2, 3]], dtype=torch.uint8))
        {'neither': 0, 'kept': 0, 're-weighted': 1, 'removed': 1, 'added': 0}
    """
    return dict(zip(OUTCOMES, outcomes.flatten().bincount(minlength=len(OUTCOMES)).tolist(), strict=True))


def difference(a: ArrayMap, b: ArrayMap) -> Float[Tensor, "queries keys"]:
    """Returns b − a, where a masked cell counts as weight 0; NaN where both mask it. Raises ValueError if the shapes
    differ.

    Example:
        >>> difference(torch.tensor([[0.5, 0.5]]), torch.tensor([[1.0, torch.nan]]))
        tensor([[ 0.5000, -0.5000]])
    """
    a, b = _as_tensors(a, b)
    return torch.where(a.isnan() & b.isnan(), torch.nan, b.nan_to_num(0) - a.nan_to_num(0))


@dataclass(frozen=True)
class MassShift:
    """How the attention of one query is redistributed from row a to row b, computed in float64.

    The tuples hold pairs (key, mass), largest mass first. removed + lost − added − gained = before − after, as sums of
    masses.
    """

    before: float  # the sum of row a
    after: float  # the sum of row b
    keys_before: int  # the number of keys that a allows; 0 for an empty row
    keys_after: int
    removed: tuple[tuple[int, float], ...]  # keys that only a allows, with their weight in a
    added: tuple[tuple[int, float], ...]  # keys that only b allows, with their weight in b
    gained: tuple[tuple[int, float], ...]  # keys that both allow with a larger weight in b, with the increase
    lost: tuple[tuple[int, float], ...]  # keys that both allow with a smaller weight in b, with the decrease
    total: float  # half the L1 distance of the rows
    factor: float | None  # a softmax would multiply surviving weights by it if b only removes keys; else None
    deviation: float | None  # the largest difference of a surviving weight from its old weight times the factor

    @property
    def removed_mass(self) -> float:
        return fsum(mass for _, mass in self.removed)

    @property
    def added_mass(self) -> float:
        return fsum(mass for _, mass in self.added)

    @property
    def gained_mass(self) -> float:
        return fsum(mass for _, mass in self.gained)

    @property
    def lost_mass(self) -> float:
        return fsum(mass for _, mass in self.lost)

    @property
    def proportional(self) -> bool | None:
        """Whether every surviving weight is its old weight times the factor, as with softmax; None without a factor."""
        return None if self.deviation is None else self.deviation <= FACTOR_TOLERANCE


def mass_shift(a_row: WeightRow, b_row: WeightRow) -> MassShift:
    """Returns the redistribution of one query's attention from row a to row b; NaN is a masked key.

    With softmax, removing keys multiplies every other weight by 1 / (1 − removed mass). This factor is computed as
    before / (mass on the keys that both allow), which avoids cancellation. It is None where b adds keys, where a row is
    empty, or where less than MIN_MASS survives. Raises ValueError if the lengths differ.

    Example:
        >>> shift = mass_shift(torch.tensor([0.5, 0.25, 0.25]), torch.tensor([torch.nan, 0.5, 0.5]))
        >>> shift.removed, shift.gained, shift.factor
        (((0, 0.5),), ((1, 0.25), (2, 0.25)), 2.0)
    """
    a, b = _as_tensors(a_row, b_row)
    a, b = a.double(), b.double()
    in_a, in_b = ~a.isnan(), ~b.isnan()
    both, increase = in_a & in_b, b - a
    before, after, surviving = a.nansum().item(), b.nansum().item(), a[both].sum().item()
    only_removes = bool(both.any()) and not bool((in_b & ~in_a).any())
    factor = before / surviving if only_removes and surviving > MIN_MASS else None
    return MassShift(
        before=before,
        after=after,
        keys_before=int(in_a.sum()),
        keys_after=int(in_b.sum()),
        removed=_sorted_masses(a, in_a & ~in_b),
        added=_sorted_masses(b, in_b & ~in_a),
        gained=_sorted_masses(increase, both & (increase > 0)),
        lost=_sorted_masses(-increase, both & (increase < 0)),
        total=(b.nan_to_num(0) - a.nan_to_num(0)).abs().sum().item() / 2,
        factor=factor,
        deviation=None if factor is None else (b - factor * a)[both].abs().max().item(),
    )


def _sorted_masses(mass: Float[Tensor, " keys"], is_included: Tensor) -> tuple[tuple[int, float], ...]:
    keys = is_included.nonzero().flatten()
    order = mass[keys].argsort(descending=True, stable=True)
    return tuple(zip(keys[order].tolist(), mass[keys][order].tolist(), strict=True))


def _as_tensors(a: Tensor | np.ndarray, b: Tensor | np.ndarray) -> tuple[Tensor, Tensor]:
    a, b = (torch.as_tensor(x.filled(np.nan) if isinstance(x, np.ma.MaskedArray) else x) for x in (a, b))
    if a.shape != b.shape:
        shapes = " and ".join(dimensions(x.shape) for x in (a, b))
        raise value_error(
            "Only weights of the same queries and keys can be compared; these are {shapes}.", shapes=shapes
        )
    return a, b
