"""One call of attention: its arguments, and the results of the model's own function."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from attnviz.biases import Bias
from attnviz.masks import Causal, Mask
from attnviz.mechanism import blocks
from attnviz.tracing.lazy_mask import LazyMask

MASKED = -9999.0  # this or less is added to the score of a key that is meant to be forbidden, by models −10,000 or less
UNFELT = -1e30  # added to a score, this or less leaves none of its digits in float32
# Arguments that change scores beyond a factor and a mask; the check of a few rows finds those of other names.
SCORE_CHANGES = ("softcap", "s_aux", "sinks")
_flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu


def continued_attention(query: Tensor, key: Tensor, value: Tensor, scale: float | None) -> Tensor | None:
    """Returns the output (1, heads, queries, width) of the last `queries` of the keys (1, kv_heads, keys, width), each
    attending to all up to itself. None where torch has no such kernel: not on the CPU, or for other widths of values.
    """
    (_, heads, queries, width), (_, kv_heads, keys, _) = query.shape, key.shape
    past = keys - queries
    if query.device.type != "cpu" or value.shape[-1] != width or past <= 0:
        return None
    # Heads that share keys are rows of one head, so that the keys of the cache are not repeated for them.
    rows = query.reshape(1, kv_heads, -1, width)
    before, before_lse = _flash(rows, key[:, :, :past], value[:, :, :past], scale=scale)
    new = (part[:, :, past:].repeat_interleave(heads // kv_heads, 1) for part in (key, value))
    after, after_lse = _flash(query, *new, is_causal=True, scale=scale)
    share = torch.sigmoid(before_lse.reshape(after_lse.shape) - after_lse)[..., None]
    merged = share * before.reshape(after.shape).float() + (1 - share) * after.float()
    return merged.to(query.dtype)


@dataclass(frozen=True, eq=False)
class Call:
    """The arguments of a call of attention; queries are (sequences, heads, queries, width).

    The options are those of transformers' AttentionInterface. A rule and biases come from functions of torch that are
    called with such, instead of tensors. A mask of booleans tells which keys are allowed; another one is added to
    scores. `own` is the function that the model calls, and `eager` the one of its module that gives weights, too.
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
    own: Callable | None = None
    eager: Callable | None = None

    @property
    def lengths(self) -> tuple[int, int]:
        return self.query.shape[2], self.key.shape[2]

    def rows(self, first: int, last: int, sequences: slice = slice(None)) -> tuple[Tensor, Tensor]:
        """Returns the output (sequences, rows, heads, width) and weights (sequences, heads, rows, keys) of the model's
        own function. If that gives no weights, they are those of the eager one."""
        output, weights = self._call_own(self.own, first, last, sequences)
        return output, self.weights(first, last, sequences) if weights is None else weights

    def weights(self, first: int, last: int, sequences: slice = slice(None)) -> Tensor:
        """Returns weights (sequences, heads, rows, keys) of the model's eager function; zeros where booleans allow no
        key."""
        weights = cast(Tensor, self._call_own(self.eager, first, last, sequences)[1])
        mask = None if self.mask is None else self._slice_rows(self.mask, first, last, sequences)
        return weights if mask is None or mask.dtype != torch.bool else weights * mask.any(-1, keepdim=True)

    def _call_own(self, own: Callable | None, first: int, last: int, sequences: slice) -> tuple[Tensor, Tensor | None]:
        if own is None:
            raise NotImplementedError(f"The attention of {type(self.module).__name__} is not known here.")
        cut = {name: self._slice_rows(value, first, last, sequences) for name, value in self.options.items()}
        query, key, value = self.query[sequences, :, first:last], self.key[sequences], self.value[sequences]
        mask = None if self.mask is None else self._slice_rows(self.mask, first, last, sequences)
        if mask is not None and own is self.eager:
            mask = as_added(mask, query.dtype)
        result: tuple[Tensor, Tensor | None] = own(self.module, query, key, value, mask, **(cut | {"dropout": 0.0}))
        return result

    def own_output(self) -> Tensor:
        """Returns the own function's output of all rows, (sequences, queries, heads, width)."""
        return torch.cat([self._call_own(self.own, *part, slice(None))[0] for part in blocks(self.lengths[0])], dim=1)

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
        if mask is not None and bias is not None:
            mask = as_added(mask, bias.dtype)
        parts = [part[..., keys] for part in (mask, bias) if part is not None]
        added = sum(parts[1:], parts[0])
        return self._by_torch(self.query[:, :, first:last], added, keys)

    def _by_torch(
        self, query: Tensor, added: Tensor | None = None, keys: slice = slice(None), causal: bool = False
    ) -> Tensor:
        return scaled_dot_product_attention(
            query,
            self.key[:, :, keys],
            self.value[:, :, keys],
            attn_mask=added if added is None or added.dtype == torch.bool else added.to(query.dtype),
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
    """Returns a mask of booleans that tell which keys are allowed as numbers that are added to scores."""
    if mask.dtype != torch.bool:
        return mask
    return torch.zeros_like(mask, dtype=dtype).masked_fill(~mask, torch.finfo(dtype).min)


def _visible_keys(mask: Tensor) -> slice:
    """Returns the range of keys outside of which no row has weight; all keys, if a row is empty."""
    visible = mask if mask.dtype == torch.bool else mask > UNFELT
    if not bool(visible.any(-1).all()):
        return slice(None)
    columns = visible.flatten(0, -2).any(0).nonzero()
    return slice(int(columns[0]), int(columns[-1]) + 1)
