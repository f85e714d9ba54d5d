"""Two maps of weights of the same queries and keys compared: what a change of the mask does to each weight.

A map has the weight of every query and key, NaN where not allowed, as attnviz.analysis.head_maps.head_map gives it.
"""

from dataclasses import dataclass
from math import fsum

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

ArrayMap = Float[Tensor, "queries keys"] | Float[np.ndarray, "queries keys"]
Row = Float[Tensor, " keys"] | Float[np.ndarray, " keys"]

# What can happen to a cell; `outcomes` gives the index in this tuple.
OUTCOMES = ("neither", "kept", "re-weighted", "removed", "added")
NEITHER, KEPT, REWEIGHTED, REMOVED, ADDED = range(len(OUTCOMES))

# Weights that differ by less than this share of the larger are the same: eight times what float32 tells apart, since
# a softmax over fewer keys adds up in another order and its last digits differ.
SAME = 1e-6
# The largest distance, at weights of up to 1, at which survivors still count as grown by one common factor.
COMMON = 1e-5
# A row that keeps less than this share of its mass keeps too few digits in float32 to be scaled up and compared.
LEAST = 1e-30


def outcomes(a: ArrayMap, b: ArrayMap) -> UInt8[Tensor, "queries keys"]:
    """What became of each cell from a to b: its index in OUTCOMES.

    0 neither allows it, 1 kept with the same weight, 2 kept but re-weighted, 3 removed (a allows it, b does not),
    4 added. The same is what differs by less than SAME of the larger weight; with A = B no cell has outcome 2, 3 or 4.
    Raises ValueError when the maps are of different shapes.
    """
    a, b = _pair(a, b)
    in_a, in_b = ~a.isnan(), ~b.isnan()
    same = (a - b).abs() <= SAME * torch.maximum(a.abs(), b.abs()) + torch.finfo(torch.float32).tiny
    both = torch.where(same, KEPT, REWEIGHTED)
    one = torch.where(in_a, REMOVED, torch.where(in_b, ADDED, NEITHER))
    return torch.where(in_a & in_b, both, one).to(torch.uint8)


def outcome_counts(outcomes: UInt8[Tensor, "queries keys"]) -> dict[str, int]:
    """Returns how many cells have each outcome, by its name in OUTCOMES."""
    return dict(zip(OUTCOMES, outcomes.flatten().bincount(minlength=len(OUTCOMES)).tolist(), strict=True))


def difference(a: ArrayMap, b: ArrayMap) -> Float[Tensor, "queries keys"]:
    """b − a, where a cell that one of them masks has weight 0 there; NaN where neither allows it.

    Exact in the maps' own precision, so that A = B gives exact zeros.
    Raises ValueError when the maps are of different shapes.
    """
    a, b = _pair(a, b)
    return torch.where(a.isnan() & b.isnan(), torch.nan, b.nan_to_num(0) - a.nan_to_num(0))


@dataclass(frozen=True)
class MassShift:
    """Where the mass of one query went from row a to row b.

    Each list holds (key, mass), the most first. Added up in float64: total = half the L1 distance of the rows,
    and what left (removed and lost) less what came (added and gained) = before − after.
    """

    before: float  # what row a adds up to
    after: float  # what row b adds up to
    keys_before: int  # how many keys a allows; where none, the query saw nothing
    keys_after: int
    removed: tuple[tuple[int, float], ...]  # keys that only a allows, and the weight they had
    added: tuple[tuple[int, float], ...]  # keys that only b allows, and the weight they have
    gained: tuple[tuple[int, float], ...]  # keys that both allow and that grew, and by how much
    lost: tuple[tuple[int, float], ...]  # keys that both allow and that shrank, and by how much
    total: float  # half the L1 distance
    factor: float | None  # what each survivor would grow by if b only dropped keys and shared their mass in proportion
    deviation: float | None  # the largest distance of a survivor's weight from its old weight times the factor

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
        """Whether every surviving weight is the old one times the factor, as softmax has it; None where there is
        no factor to ask about."""
        return None if self.deviation is None else self.deviation <= COMMON


def mass_shift(a_row: Row, b_row: Row) -> MassShift:
    """Where one query's mass went when its row of weights went from a to b; NaN is a key that is not allowed.

    With softmax, taking keys away multiplies every other weight by 1 / (1 − removed mass). That factor is
    computed as before / (mass on the keys that both allow), which is the same without its cancellation.
    There is no factor where b adds keys, where a row is empty, or where next to nothing survives (LEAST).
    Raises ValueError when the rows are of different lengths.
    """
    a, b = _pair(a_row, b_row)
    a, b = a.double(), b.double()
    in_a, in_b = ~a.isnan(), ~b.isnan()
    both, change = in_a & in_b, b - a
    before, after, stayed = a.nansum().item(), b.nansum().item(), a[both].sum().item()
    only_removes = bool(both.any()) and not bool((in_b & ~in_a).any())
    factor = before / stayed if only_removes and stayed > LEAST else None
    return MassShift(
        before=before,
        after=after,
        keys_before=int(in_a.sum()),
        keys_after=int(in_b.sum()),
        removed=_most(a, in_a & ~in_b),
        added=_most(b, in_b & ~in_a),
        gained=_most(change, both & (change > 0)),
        lost=_most(-change, both & (change < 0)),
        total=(b.nan_to_num(0) - a.nan_to_num(0)).abs().sum().item() / 2,
        factor=factor,
        deviation=None if factor is None else (b - factor * a)[both].abs().max().item(),
    )


def _most(mass: Float[Tensor, " keys"], where: Tensor) -> tuple[tuple[int, float], ...]:
    keys = where.nonzero().flatten()
    order = mass[keys].argsort(descending=True, stable=True)
    return tuple(zip(keys[order].tolist(), mass[keys][order].tolist(), strict=True))


def _pair(a: Tensor | np.ndarray, b: Tensor | np.ndarray) -> tuple[Tensor, Tensor]:
    a, b = torch.as_tensor(a), torch.as_tensor(b)
    if a.shape != b.shape:
        shapes = " and ".join(" × ".join(map(str, x.shape)) for x in (a, b))
        raise ValueError(f"Only weights of the same queries and keys can be compared; these are {shapes}.")
    return a, b
