"""How far a mask lets one see through several layers: the receptive field of stacked attention.

What a query's output depends on grows with depth: it sees keys, which a layer below saw keys of their own. And each
position also keeps itself, through the residual stream around every attention layer, whatever the mask says.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

BLOCK = 128  # queries at a time, so that memory stays small


def reach(
    allowed: Bool[Tensor, "queries keys"] | Bool[np.ndarray, "queries keys"], layers: int
) -> Int[Tensor, "queries keys"]:
    """The fewest layers of this mask through which a query's output depends on a key's input; 0 where more than
    `layers` would be needed, or no number is enough.

    A position depends on itself from the first layer on, also where the mask does not allow it (the residual stream).
    Raises ValueError where there are not as many queries as keys, or no layer.
    """
    allowed = torch.as_tensor(allowed)
    if allowed.shape[0] != allowed.shape[1]:
        raise ValueError(
            "Layers can be stacked where the queries of one are the keys of the next, so there must be as many of "
            f"both; here there are {allowed.shape[0]} queries and {allowed.shape[1]} keys."
        )
    if layers < 1:
        raise ValueError(f"Give at least 1 layer; it got {layers}.")
    one = allowed.cpu().numpy() | np.eye(len(allowed), dtype=bool)
    needed, seen = one.astype(np.int32), one
    for layer in range(2, layers + 1):
        further = _seen_by_seen(one, seen)
        new = further & ~seen
        if not new.any():
            break
        needed[new], seen = layer, further
    return torch.from_numpy(needed)


def _seen_by_seen(one: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """All that is seen by what each query sees in one step: the boolean product of both, eight keys a byte."""
    packed, whole = np.packbits(seen, axis=1), np.empty_like(seen)
    for first in range(0, len(one), BLOCK):
        rows, keys = one[first : first + BLOCK].nonzero()  # no row is empty: each position sees itself
        together = np.bitwise_or.reduceat(packed[keys], np.searchsorted(rows, np.arange(rows[-1] + 1)))
        whole[first : first + BLOCK] = np.unpackbits(together, axis=1, count=seen.shape[1])
    return whole


@dataclass(frozen=True, eq=False)
class Seen:
    """How many keys each query depends on after 1, 2, … layers."""

    each: Int[Tensor, "layers queries"]

    @property
    def most(self) -> Int[Tensor, " layers"]:
        """How many the query has that depends on most."""
        return self.each.amax(-1)

    @property
    def median(self) -> Float[Tensor, " layers"]:
        """How many the query in the middle has; between the two in the middle where their number is even."""
        return self.each.double().quantile(0.5, dim=-1)

    @property
    def least(self) -> Int[Tensor, " layers"]:
        """How many the query has that depends on fewest."""
        return self.each.amin(-1)


def seen(reach: Int[Tensor, "queries keys"], layers: int) -> Seen:
    """How many keys the queries depend on through 1 … `layers` layers, given what `reach` says for as many."""
    depth = torch.arange(1, layers + 1, device=reach.device)[:, None, None]
    return Seen(((reach > 0) & (reach <= depth)).sum(-1))
