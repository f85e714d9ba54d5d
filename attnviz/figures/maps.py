"""What figures take: attention, torch tensors or NumPy arrays, with tokens or without."""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from torch import Tensor

from attnviz.base.language import value_error
from attnviz.base.plain_tensor import plain_array, plain_tensor
from attnviz.mechanism import Attention

Array: TypeAlias = np.ndarray | Tensor


def as_array(values: Array) -> np.ndarray:
    """Returns numbers as a NumPy array, NaN where they are masked. Real numbers of a tensor are converted to float32.

    Example:
        >>> import torch
        >>> as_array(torch.ones(2, dtype=torch.bfloat16))
        array([1., 1.], dtype=float32)
    """
    if not isinstance(values, Tensor):
        array = plain_array(values)
        return np.asarray(values) if array is None else array
    values = plain_tensor(values.detach(), "This tensor").cpu()
    return (values.float() if values.is_floating_point() else values).numpy()


def as_maps(weights: Attention | Array) -> np.ndarray:
    """Returns the maps (heads, queries, keys) of an attention, with NaN where a key is not allowed, or of an array.

    Raises ValueError if an array has not 2 or 3 axes, apart from leading axes of one entry.

    Example:
        >>> as_maps(np.zeros((1, 12, 4, 4))).shape, as_maps(np.zeros((4, 4))).shape
        ((12, 4, 4), (1, 4, 4))
    """
    maps = as_array(weights.maps if isinstance(weights, Attention) else weights)
    shape = maps.shape
    if maps.ndim < 2 or any(size != 1 for size in shape[:-3]):
        raise value_error(
            "A map has the axes queries and keys, and may have heads before them; this has the shape {shape}.",
            shape=shape,
        )
    return maps.reshape(-1, *shape[-2:])


def as_map(
    weights: Attention | Array, query_tokens: Sequence[str] | None = None, key_tokens: Sequence[str] | None = None
) -> tuple[np.ndarray, Sequence[str], Sequence[str]]:
    """Returns the map of one head with the tokens of its queries and keys.

    Tokens that are not given are those of the attention. Where it has none, the keys have those of the queries if they
    are as many, or else numbers. Raises ValueError if there are several heads, or not one token for each row and each
    column.

    Example:
        >>> as_map(np.eye(2), ["it", "is"])[1:], as_map(np.eye(2))[1:]
        ((['it', 'is'], ['it', 'is']), (['0', '1'], ['0', '1']))
    """
    maps = as_maps(weights)
    if len(maps) != 1:
        raise value_error(
            "This figure shows one head; it was given {count}. Choose one with mechanism(inputs, "
            "heads=0) or attention.maps[0], or draw all of them with figures.mosaic.",
            count=len(maps),
        )
    if isinstance(weights, Attention):
        query_tokens, key_tokens = query_tokens or weights.query_tokens, key_tokens or weights.key_tokens
    queries, keys = maps.shape[1:]
    if queries == keys:
        key_tokens = key_tokens or query_tokens
    return maps[0], axis_tokens("query_tokens", query_tokens, queries), axis_tokens("key_tokens", key_tokens, keys)


def axis_tokens(name: str, tokens: Sequence[str] | None, count: int) -> Sequence[str]:
    """Returns the tokens of an axis, or numbers where none are given. Raises ValueError if they are not as many."""
    if not tokens:
        return [str(i) for i in range(count)]
    if len(tokens) != count:
        raise value_error(
            "{name} names {names} tokens, but the map has {tokens}. Give one for each.",
            name=name,
            names=len(tokens),
            tokens=count,
        )
    return tokens
