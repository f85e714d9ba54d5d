"""Calls of torch's FlexAttention, whose masks and biases are functions of positions."""

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from attnviz.biases import Bias
from attnviz.masks import Causal, Full, Mask
from attnviz.masks.mask import Bound
from attnviz.mechanism import blocks
from attnviz.trace.opaque_parts import ModelMask
from attnviz.tracing.call import Call
from attnviz.tracing.mask_recognition import recognize_mask
from attnviz.tracing.memory_budget import MemoryBudget

MODULE = "torch.nn.attention.flex_attention"


def is_flex_attention(function: object) -> bool:
    """Returns whether a function is the operator that flex_attention calls."""
    return MODULE in sys.modules and function is torch.ops.higher_order.flex_attention


def flex_call(module: nn.Module, args: tuple[Any, ...], sequence: int) -> Call | None:
    """Returns a call with the arguments of that operator, or None if its score_mod is not a bias of attnviz.

    A mask of attnviz stays what it is. Another one is recognized as a mask of the catalogue, or computed by its own
    function when it is needed, as that of `sequence` in the batch.
    """
    query, key, value, score_mod, block_mask, scale, *_ = args
    if not isinstance(score_mod, Bias) and score_mod.__name__ != "_identity":
        return None
    sequences, heads, queries, _ = query.shape
    key, value = (tensor.expand(sequences, -1, -1, -1) for tensor in (key, value))
    rule = _rule(block_mask[-1], sequence, (heads, queries, key.shape[2]), query.device)
    biases = (score_mod,) if isinstance(score_mod, Bias) else ()
    return Call(module, query, key, value, None, {"scaling": scale}, rule, biases)


def flex_weights(function: Callable, args: tuple[Any, ...], budget: MemoryBudget) -> Tensor:
    """Returns the weights (sequences, heads, queries, keys) of the model's own FlexAttention: its outputs, if the
    values are an identity matrix."""
    query, key, *_ = args
    keys = key.shape[2]
    budget.check(8 * len(query) * query.shape[1] * query.shape[2] * keys, "its weights")
    identity = torch.eye(keys, dtype=query.dtype, device=query.device).expand(*key.shape[:2], -1, -1)
    weights: Tensor = function(query, key, identity, *args[3:])[0]
    return weights


def _rule(mask_mod: Any, sequence: int, sizes: tuple[int, int, int], device: torch.device) -> Mask:
    if isinstance(mask_mod, Mask) and sequence == 0:
        return _unbound(mask_mod, *sizes)
    if getattr(mask_mod, "__name__", "") == "noop_mask":
        return Full()

    def allowed(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return _computed(mask_mod, *(one.to(device) for one in (b + sequence, h, q, k))).cpu()

    heads, queries, keys = sizes
    mask, zero, h, k = ModelMask(allowed), torch.tensor(0), torch.arange(heads)[:, None, None], torch.arange(keys)

    def rows(first: int, last: int) -> Tensor:
        return mask(zero, zero, torch.arange(first, last)[:, None], k).expand(last - first, keys)

    for first, last in blocks(queries):
        if not bool((mask(zero, h, torch.arange(first, last)[:, None], k) == rows(first, last)).all()):
            return mask
    return recognize_mask(rows, queries, keys) or mask


def _unbound(mask: Mask, heads: int, queries: int, keys: int) -> Mask:
    """Returns the mask that these numbers of heads, queries and keys make this one of."""
    last = Causal("bottom right")
    if queries != keys and mask == last.bind(queries, keys, heads):
        return last
    return mask.mask if isinstance(mask, Bound) and mask.mask.bind(queries, keys, heads) == mask else mask


def _computed(mask_mod: Callable, *positions: Tensor) -> Tensor:
    """Returns what a function of single positions allows, for positions that broadcast against each other."""
    from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex

    shape = torch.broadcast_shapes(*(one.shape for one in positions))
    whole = [one.reshape((1,) * (len(shape) - one.ndim) + one.shape) for one in positions]
    function = mask_mod
    for axis in reversed(range(len(shape))):  # as torch does it, one axis after the other
        axes = tuple(0 if one.shape[axis] > 1 else None for one in whole)
        if any(one is not None for one in axes):
            function = torch.vmap(function, axes)
    with TransformGetItemToIndex():
        cells: Tensor = function(*(one.squeeze() for one in whole))
    return cells.reshape(shape)
