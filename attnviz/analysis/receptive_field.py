"""The receptive field of stacked attention: which keys a query depends on through several layers.

A query attends to keys, which depend on other keys in the layer below, so its receptive field grows with depth. Each
position also depends on itself through the residual connection, whatever the mask.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnviz.base.language import value_error

Allowed = Bool[Tensor, "queries keys"] | Bool[np.ndarray, "queries keys"]


def layers_needed(allowed: Allowed | Sequence[Allowed], layers: int) -> Int[Tensor, "queries keys"]:
    """Returns the fewest layers through which each query depends on each key; 0 if more than `layers` are needed.

    `allowed` is the mask of every layer, or a sequence of masks: of the first layer, the second and so on, repeated
    from the beginning over all layers. A position depends on itself from the first layer on, also if the mask does not
    allow it (the residual connection). Raises ValueError if the numbers of queries and keys differ, if the masks differ
    in size, or if there is no layer or no mask.

    Example:
        >>> from attnviz.masks import Causal, SlidingWindow
        >>> local, whole = SlidingWindow(2).matrix(5, 5), Causal().matrix(5, 5)
        >>> layers_needed(local, 3)[4]
        tensor([0, 3, 2, 1, 1], dtype=torch.int32)
        >>> layers_needed([local, whole], 3)[4]
        tensor([2, 2, 2, 1, 1], dtype=torch.int32)
    """
    single = isinstance(allowed, Tensor | np.ndarray)
    masks = [torch.as_tensor(one) for one in ([allowed] if single else allowed)]
    if not masks or len({mask.shape for mask in masks}) > 1:
        sizes = ", ".join(" × ".join(map(str, mask.shape)) for mask in masks) or "none"
        raise value_error("Give at least one mask, and masks of one size; it got {sizes}.", sizes=sizes)
    queries, keys = masks[0].shape
    if queries != keys:
        raise value_error(
            "Layers can be stacked where the queries of one are the keys of the next, so there "
            "must be as many of both; here there are {queries} queries and {keys} keys.",
            queries=queries,
            keys=keys,
        )
    if layers < 1:
        raise value_error("Give at least 1 layer; it got {layers}.", layers=layers)
    direct = [mask.cpu().numpy() | np.eye(queries, dtype=bool) for mask in masks]
    needed, reached, latest = direct[0].astype(np.int32), direct[0], 1
    for layer in range(2, layers + 1):
        mask = direct[(layer - 1) % len(direct)]
        further = np.array([reached[row].any(0) for row in mask], bool)  # of local masks faster than a matrix product
        new = further & ~reached
        if new.any():
            needed[new], reached, latest = layer, further, layer
        elif layer - latest == len(direct):  # no layer of the sequence adds anything
            break
    return torch.from_numpy(needed)


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
