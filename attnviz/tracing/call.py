"""One call of attention: its arguments, and the results of the model's own function."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from attnviz.biases import Bias
from attnviz.masks import Causal, Mask
from attnviz.mechanism import blocks
from attnviz.tracing.continued_attention import continued_attention
from attnviz.tracing.lazy_mask import LazyMask

MASKED = -9999.0  # this or less is added to the score of a key that is meant to be forbidden, by models −10,000 or less
UNFELT = -1e30  # added to a score, this or less leaves none of its digits in float32
# Arguments that change scores beyond a factor and a mask; the check of a few rows finds those of other names.
SCORE_CHANGES = ("softcap", "s_aux", "sinks")
INDICES = ("indices", "block_indices")  # the keys that a model has chosen itself, in a form of its own


@dataclass(frozen=True, eq=False)
class Call:
    """The arguments of a call of attention; queries are (sequences, heads, queries, width).

    The options are those of transformers' AttentionInterface. A rule and biases come from functions of torch that are
    called with such, instead of tensors.
    """

    module: nn.Module
    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None
    options: dict[str, Any] = field(default_factory=dict)
    rule: Mask | None = None  # for the positions of one sequence
    biases: tuple[Bias, ...] = ()
    added_keys: tuple[str, ...] = ()  # the names of keys that no token has, after all others

    @property
    def lengths(self) -> tuple[int, int]:
        return self.query.shape[2], self.key.shape[2]

    def own_function(self) -> Callable | None:
        """Returns the default attention function of the model's own module, or None."""
        forward = inspect.unwrap(type(self.module).forward)
        names = (name for name in forward.__code__.co_names if "eager" in name)
        return next((function for name in names if callable(function := forward.__globals__.get(name))), None)

    def rows(self, first: int, last: int, sequences: slice = slice(None)) -> tuple[Tensor, Tensor]:
        """Returns the output (sequences, rows, heads, width) and weights (sequences, heads, rows, keys) of that
        function."""
        own = self.own_function()
        if own is None:
            raise NotImplementedError(f"The attention of {type(self.module).__name__} is not known here.")
        cut = {name: self._slice_rows(value, first, last, sequences) for name, value in self.options.items()}
        query, key, value = self.query[sequences, :, first:last], self.key[sequences], self.value[sequences]
        mask = None if self.mask is None else self._slice_rows(self.mask, first, last, sequences)
        if mask is not None:
            mask = as_added(mask, query.dtype)
        output, weights = own(self.module, query, key, value, mask, **(cut | {"dropout": 0.0}))
        return output, weights

    def own_output(self) -> Tensor:
        """Returns that function's output of all rows, (sequences, queries, heads, width)."""
        return torch.cat([self.rows(*part)[0] for part in blocks(self.lengths[0])], dim=1)

    def output(self) -> Tensor:
        """Returns the output of all rows, (sequences, queries, heads, width), without all scores in memory."""
        queries, _ = self.lengths
        bias = self.options.get("position_bias")
        if any(self.options.get(name) is not None for name in SCORE_CHANGES):
            return self.own_output()
        if bias is None and (self.mask is None or self._causal()):
            parts = [self._by_torch(self.query, causal=self.mask is not None)]
        elif bias is None and (continued := self._continued()) is not None:
            parts = [continued]
        else:
            parts = [self._rows_by_torch(*part) for part in blocks(queries)]
        return torch.cat(parts, dim=2).transpose(1, 2)

    def _rows_by_torch(self, first: int, last: int) -> Tensor:
        mask, bias = (self._slice_rows(part, first, last) for part in (self.mask, self.options.get("position_bias")))
        keys = slice(None) if mask is None else _visible_keys(mask)
        added = sum(part[..., keys] for part in (mask, bias) if part is not None)
        return self._by_torch(self.query[:, :, first:last], added, keys)

    def _by_torch(
        self, query: Tensor, added: Tensor | None = None, keys: slice = slice(None), causal: bool = False
    ) -> Tensor:
        return scaled_dot_product_attention(
            query,
            self.key[:, :, keys],
            self.value[:, :, keys],
            attn_mask=added if added is None else added.to(query.dtype),
            is_causal=causal,
            scale=self.options.get("scaling"),
            enable_gqa=self.query.shape[1] != self.key.shape[1],
        )

    def _causal(self) -> bool:
        return isinstance(self.mask, LazyMask) and self.mask.rule() == Causal() and self.mask.real_keys(0) is None

    def _continued(self) -> Tensor | None:
        """Returns the output (1, heads, queries, width) of queries that continue a cache under a causal mask; None if
        they do not, or if it takes the mask."""
        if not isinstance(self.mask, LazyMask) or not self.mask.continues_causally() or len(self.query) > 1:
            return None
        return continued_attention(self.query, self.key, self.value, self.options.get("scaling"))

    def _slice_rows(self, value: Any, first: int, last: int, sequences: slice = slice(None)) -> Any:
        """Returns the part of a tensor for these rows and sequences, if it has axes for them."""
        if isinstance(value, LazyMask):
            value = value.rows(first, last)
        elif isinstance(value, Tensor) and value.ndim == 4 and value.shape[2] == self.query.shape[2] > 1:
            value = value[:, :, first:last]
        if isinstance(value, Tensor) and value.ndim == 4 and value.shape[0] == self.query.shape[0]:
            value = value[sequences]
        return value


def as_added(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Returns a mask of booleans, which torch understands, as numbers that are added to scores."""
    if mask.dtype != torch.bool:
        return mask
    return torch.zeros_like(mask, dtype=dtype).masked_fill(~mask, torch.finfo(dtype).min)


def _visible_keys(mask: Tensor) -> slice:
    """Returns the range of keys outside of which no row has weight; all keys, if a row is empty."""
    visible = mask > UNFELT
    if not bool(visible.any(-1).all()):
        return slice(None)
    columns = visible.flatten(0, -2).any(0).nonzero()
    return slice(int(columns[0]), int(columns[-1]) + 1)
