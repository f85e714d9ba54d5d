"""Calls of torch's multi-head attention, which projects queries, keys and values itself."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from attnviz.tracing.call import Call


@dataclass(frozen=True, eq=False)
class MultiHeadCall:
    """The arguments of `F.multi_head_attention_forward`, for some of its sequences.

    query, key and value are (tokens, sequences, width), before their projections. `mask` is what is added to the
    scores of keys with tokens: (sequences or 1, heads or 1, queries or 1, keys), or None.
    """

    module: nn.Module
    arguments: dict[str, Any]
    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None

    @classmethod
    def from_arguments(cls, module: nn.Module, arguments: dict[str, Any], sequences: slice) -> "MultiHeadCall":
        query, key, value = (_with_sequences(arguments[name]) for name in ("query", "key", "value"))
        # torch projects an object once, even if it is passed as several arguments.
        same_key, same_value = arguments["key"] is arguments["query"], arguments["value"] is arguments["key"]
        query = query[:, sequences]
        key = query if same_key else key[:, sequences]
        value = key if same_value else value[:, sequences]
        return cls(module, arguments, query, key, value, _mask(arguments, query, key, sequences))

    @property
    def added_keys(self) -> tuple[str, ...]:
        bias, zero = self.arguments["bias_k"] is not None, self.arguments["add_zero_attn"]
        return ("[bias]",) * bias + ("[zero]",) * bool(zero)

    def call(self) -> Call:
        """Returns the queries, keys and values that torch makes of these, with the mask."""
        separate, names = self.arguments.get("use_separate_proj_weight"), ("q", "k", "v")
        states, bias = (self.query, self.key, self.value), self.arguments["in_proj_bias"]
        if separate:
            biases = (None,) * 3 if bias is None else bias.chunk(3)
            weights = (self.arguments[f"{name}_proj_weight"] for name in names)
            parts = (functional.linear(*one) for one in zip(states, weights, biases, strict=True))
        else:
            parts = functional._in_projection_packed(  # type: ignore[attr-defined]
                *states, self.arguments["in_proj_weight"], bias
            )
        query, *both = parts
        added = [self.arguments[name] for name in ("bias_k", "bias_v")]
        if added[0] is not None:
            both = [torch.cat([one, bias.expand(-1, one.shape[1], -1)]) for one, bias in zip(both, added, strict=True)]
        if self.arguments["add_zero_attn"]:
            both = [functional.pad(one, (0, 0, 0, 0, 0, 1)) for one in both]
        heads = self.arguments["num_heads"]
        query, key, value = (one.unflatten(-1, (heads, -1)).permute(1, 2, 0, 3) for one in (query, *both))
        mask = self.mask
        if mask is not None and self.added_keys:
            mask = functional.pad(mask, (0, len(self.added_keys)))
        return Call(self.module, query, key, value, mask, added_keys=self.added_keys)

    def rows(self, sequence: int, first: int, last: int) -> tuple[Tensor, Tensor]:
        """Returns the output (1, rows, heads, width), before the output's projection, and the weights (1, heads, rows,
        keys) of torch's own function; zeros for queries without an allowed key, for which it gives NaN in all heads."""
        rows, sequences = slice(first, last), slice(sequence, sequence + 1)
        query, key, value = self.query[rows, sequences], self.key[:, sequences], self.value[:, sequences]
        heads, width = self.arguments["num_heads"], query.shape[-1]
        mask, empty = self.mask, None
        if mask is not None:
            mask = mask if len(mask) == 1 else mask[sequences]
            mask = mask if mask.shape[2] == 1 else mask[:, :, rows]
            mask = mask[0].expand(heads, query.shape[0], -1)
            empty = mask.isneginf().all(-1, keepdim=True) & (not self.added_keys)
            mask = mask.masked_fill(empty, 0)
        changes: dict[str, Any] = {"query": query, "key": key, "value": value, "attn_mask": mask, "training": False}
        changes |= {"key_padding_mask": None, "is_causal": False, "need_weights": True, "average_attn_weights": False}
        changes |= {"out_proj_weight": torch.eye(width, dtype=query.dtype, device=query.device), "out_proj_bias": None}
        results: tuple[Tensor, Any] = functional.multi_head_attention_forward(**self.arguments | changes)
        output, weights = results
        output = output.transpose(0, 1).unflatten(-1, (heads, -1))
        if empty is None:
            return output, weights
        return output.masked_fill(empty.transpose(0, 1), 0), weights.masked_fill(empty, 0)

    def weights(self) -> Tensor:
        """Returns the weights (sequences, heads, queries, keys) of torch's own function."""
        return torch.cat([self.rows(sequence, 0, len(self.query))[1] for sequence in range(self.query.shape[1])])

    def projected(self, output: Tensor) -> Tensor:
        """Returns the module's output (queries, sequences, width) of one (sequences, queries, heads, width)."""
        weight, bias = self.arguments["out_proj_weight"], self.arguments["out_proj_bias"]
        return functional.linear(output.transpose(0, 1).flatten(2).to(weight.dtype), weight, bias)


def sequence_count(arguments: dict[str, Any]) -> int:
    """Returns the number of sequences in the arguments of torch's multi-head attention."""
    return int(_with_sequences(arguments["query"]).shape[1])


def _with_sequences(states: Tensor) -> Tensor:
    return states if states.ndim == 3 else states[:, None]


def _mask(arguments: dict[str, Any], query: Tensor, key: Tensor, sequences: slice) -> Tensor | None:
    """Returns both masks of the arguments as one."""
    mask, padding = (arguments.get(name) for name in ("attn_mask", "key_padding_mask"))
    lengths = len(query), len(key)
    if arguments.get("is_causal") and padding is None and not arguments.get("need_weights", True):
        # In this case torch ignores the mask and uses is_causal.
        mask = torch.ones(lengths, dtype=torch.bool, device=query.device).triu(1)
    parts = []
    if mask is not None:
        whole = mask[None, None] if mask.ndim == 2 else mask.unflatten(0, (-1, arguments["num_heads"]))[sequences]
        parts.append(whole)
    if padding is not None:
        parts.append((padding if padding.ndim == 2 else padding[None])[sequences, None, None])
    added = [
        query.new_zeros(part.shape).masked_fill(part, -torch.inf) if part.dtype == torch.bool else part
        for part in parts
    ]
    return sum(added[1:], added[0]) if added else None
