"""The receptive field of stacked attention: which keys a query depends on through several layers of one mask.

A query attends to keys, which depend on other keys in the layer below, so its receptive field grows with depth. Each
position also depends on itself through the residual connection, whatever the mask.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

BLOCK = 128  # queries at a time, so that memory stays small


def layers_needed(
    allowed: Bool[Tensor, "queries keys"] | Bool[np.ndarray, "queries keys"], layers: int
) -> Int[Tensor, "queries keys"]:
    """Returns the fewest layers through which each query depends on each key; 0 if more than `layers` are needed.

    A position depends on itself from the first layer on, also if the mask does not allow it (the residual connection).
    Raises ValueError if the numbers of queries and keys differ, or if there is no layer.
    """
    allowed = torch.as_tensor(allowed)
    if allowed.shape[0] != allowed.shape[1]:
        raise ValueError(
            "Layers can be stacked where the queries of one are the keys of the next, so there must be as many of "
            f"both; here there are {allowed.shape[0]} queries and {allowed.shape[1]} keys."
        )
    if layers < 1:
        raise ValueError(f"Give at least 1 layer; it got {layers}.")
    direct = allowed.cpu().numpy() | np.eye(len(allowed), dtype=bool)
    needed, reached = direct.astype(np.int32), direct
    for layer in range(2, layers + 1):
        further = _one_layer_more(direct, reached)
        new = further & ~reached
        if not new.any():
            break
        needed[new], reached = layer, further
    return torch.from_numpy(needed)


def _one_layer_more(direct: np.ndarray, reached: np.ndarray) -> np.ndarray:
    """Returns the boolean matrix product of both, computed on packed bits."""
    packed, product = np.packbits(reached, axis=1), np.empty_like(reached)
    for first in range(0, len(direct), BLOCK):
        rows, keys = direct[first : first + BLOCK].nonzero()  # no row is empty: each position reaches itself
        united = np.bitwise_or.reduceat(packed[keys], np.searchsorted(rows, np.arange(rows[-1] + 1)))
        product[first : first + BLOCK] = np.unpackbits(united, axis=1, count=reached.shape[1])
    return product


@dataclass(frozen=True, eq=False)
class FieldSizes:
    """The number of keys that each query depends on after 1, 2, … layers."""

    each: Int[Tensor, "layers queries"]

    @property
    def most(self) -> Int[Tensor, " layers"]:
        """The largest number over queries, for each number of layers."""
        return self.each.amax(-1)

    @property
    def median(self) -> Float[Tensor, " layers"]:
        """The median over queries, for each number of layers."""
        return self.each.double().quantile(0.5, dim=-1)

    @property
    def least(self) -> Int[Tensor, " layers"]:
        """The smallest number over queries, for each number of layers."""
        return self.each.amin(-1)


def field_sizes(needed: Int[Tensor, "queries keys"], layers: int) -> FieldSizes:
    """Returns the size of each query's receptive field after 1 … `layers` layers, given the result of `layers_needed`.

    Example:
        >>> causal = torch.ones(3, 3, dtype=torch.bool).tril()
        >>> field_sizes(layers_needed(causal, 1), 1).each
        tensor([[1, 2, 3]])
    """
    depth = torch.arange(1, layers + 1, device=needed.device)[:, None, None]
    return FieldSizes(((needed > 0) & (needed <= depth)).sum(-1))
