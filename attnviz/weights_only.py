"""Attention weights without the queries and keys from which they were computed."""

from dataclasses import dataclass

from jaxtyping import Float, Real
from torch import Tensor

from attnviz.base.formatting import dimensions
from attnviz.base.interruption import end_if_unwanted
from attnviz.base.language import value_error
from attnviz.inputs import MapAxes
from attnviz.mechanism import Pick, picked_positions
from attnviz.patch_grid import PatchGrid


@dataclass(frozen=True, eq=False)
class WeightsOnly(MapAxes):
    """The weights of all heads of one layer, where there are no queries and keys to compute them from.

    Weights are NaN where not allowed. They may be of any type of real numbers, and are not copied. Raises ValueError if
    there are none, if one is infinite, or if tokens are of another number.

    Example:
        >>> import torch
        >>> weights = WeightsOnly(torch.eye(2)[None], ("it", "is"), ("it", "is"))
        >>> weights, weights.heads
        (WeightsOnly(1 × 2 × 2), 1)
    """

    weights: Real[Tensor, "heads queries keys"]
    query_tokens: tuple[str, ...]
    key_tokens: tuple[str, ...]
    special_queries: tuple[int, ...] = ()
    special_keys: tuple[int, ...] = ()
    query_ids: tuple[int, ...] = ()
    key_ids: tuple[int, ...] = ()
    query_grid: PatchGrid | None = None
    key_grid: PatchGrid | None = None

    def __post_init__(self) -> None:
        weights = self._set_plain("weights", self.tensors["weights"])
        if weights.ndim != 3 or 0 in weights.shape:
            raise value_error(
                "Weights must have 3 axes (heads, queries, keys), none of them empty; their shape is {shape}.",
                shape=dimensions(weights.shape),
            )
        self._check_numbers("weights", weights)
        self._check_axes(*weights.shape[1:])

    def __repr__(self) -> str:
        return f"WeightsOnly({dimensions(self.tensors['weights'].shape)})"

    @property
    def tensors(self) -> dict[str, Tensor]:
        return {"weights": vars(self)["weights"]}

    def _check_numbers(self, name: str, array: Tensor) -> None:
        """Raises ValueError if a number is infinite."""
        if bool(array.isinf().any()):
            raise value_error("These weights hold infinity, so they are scores. Apply softmax to them first.")

    def maps(self, heads: slice | list[int], rows: slice | list[int]) -> Float[Tensor, "heads rows keys"]:
        return self.weights[:, rows][heads].float()


@dataclass(frozen=True, eq=False)
class FixedAttention:
    """Weights that nothing computes, of the selected heads and query rows."""

    maps: Float[Tensor, "heads rows keys"]  # NaN where not allowed

    @property
    def weights(self) -> Float[Tensor, "heads rows keys"]:
        """The weights, zero where not allowed."""
        return self.maps.nan_to_num(0.0)


@dataclass(frozen=True)
class FixedWeights:
    """The weights of a layer in place of a mechanism, where they are all that is known.

    Example:
        >>> import torch
        >>> FixedWeights()(WeightsOnly(torch.eye(2)[None], ("it", "is"), ("it", "is")), rows=slice(1, 2)).maps
        tensor([[[0., 1.]]])
    """

    def __call__(self, inputs: MapAxes, *, heads: Pick = slice(None), rows: Pick = slice(None)) -> FixedAttention:
        """Returns the weights of the heads and query rows picked by a slice or by positions. Raises ValueError if there
        are queries and keys instead."""
        end_if_unwanted()
        picked = picked_positions(heads, inputs.heads, "head"), picked_positions(rows, inputs.queries, "row")
        return FixedAttention(inputs.maps(*picked))
