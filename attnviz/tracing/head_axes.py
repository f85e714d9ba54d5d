"""The axes of queries, keys and values: which of them are examples, and which are heads, by the numbers of heads."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from attnviz.tracing.memory_budget import NotCaptured

HEADS = (
    *("num_attention_heads", "num_heads", "n_heads", "n_head", "heads", "nhead", "nheads"),
    *("encoder_attention_heads", "decoder_attention_heads"),
)


def configs_of(model: nn.Module) -> list[Any]:
    """Returns the configs of a model and of its parts, which can each have an attention implementation of their own."""
    waiting: list[Any] = [module.config for module in model.modules() if hasattr(module, "config")]
    configs: dict[int, Any] = {}
    while waiting:
        config = waiting.pop()
        if id(config) not in configs and hasattr(config, "_attn_implementation_internal"):
            configs[id(config)] = config
            waiting += [part for name in config.sub_configs if (part := getattr(config, name, None)) is not None]
    return list(configs.values())


def head_counts(model: nn.Module) -> frozenset[int]:
    """Returns the numbers of heads that the configs of a model have."""
    return frozenset().union(*map(head_counts_of, configs_of(model)))


def head_counts_of(part: Any) -> frozenset[int]:
    """Returns the numbers of heads of a module or a config."""
    values = [getattr(part, name, None) for name in HEADS]
    listed = [value if isinstance(value, list | tuple) else [value] for value in values]
    return frozenset(one for values in listed for one in values if isinstance(one, int))


def with_head_axes(
    arguments: Mapping[str, Any],
    output: Tensor,
    heads: frozenset[int],
    example_counts: Sequence[int],
    shapes: Sequence[torch.Size],
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None]:
    """Returns query, key, value, output (sequences, heads, tokens, width) and mask of scaled_dot_product_attention,
    which takes any leading axes.

    `heads` are the numbers of heads that the module may have, and `shapes` those of its inputs. Raises NotCaptured if
    three axes may be examples as well as heads.
    """
    query, key, value = (arguments[name] for name in ("query", "key", "value"))
    mask = arguments.get("attn_mask")
    if query.ndim > 4:
        lead = query.shape[:-3]
        if mask is not None and mask.ndim > 4:
            mask = mask.expand(*lead, *mask.shape[-3:]).flatten(0, -4)
        key, value = (tensor.expand(*lead, *tensor.shape[-3:]).flatten(0, -4) for tensor in (key, value))
        return query.flatten(0, -4), key, value, output.flatten(0, -4), mask
    if query.ndim < 4:
        split = 1 if query.ndim == 2 else _head_count(query, heads, example_counts, shapes)
        tensors = (query, key, value, output)
        query, key, value, output = (_with_heads(one.reshape(-1, *one.shape[-2:]), split) for one in tensors)
        mask = _with_heads(mask, split) if mask is not None and mask.ndim == 3 and len(mask) > 1 else mask
    key, value = (tensor.expand(len(query), -1, -1, -1) for tensor in (key, value))
    return query, key, value, output, mask


def _with_heads(tensor: Tensor, heads: int) -> Tensor:
    return tensor.unflatten(0, (-1, heads)) if len(tensor) % heads == 0 else tensor[None]


def _head_count(
    query: Tensor, heads: frozenset[int], example_counts: Sequence[int], shapes: Sequence[torch.Size]
) -> int:
    """Returns the number of heads in the first of three axes."""
    count, _, width = query.shape
    if shapes and all(len(shape) < 3 for shape in shapes):  # a single example without an axis of its own
        return count
    if count in example_counts:
        return 1
    possible = {*heads, *(shape[-1] // width for shape in shapes if shape[-1] % width == 0)}
    matching = {one for one in possible if count % one == 0 and count // one in example_counts}
    if len(matching) != 1:
        raise NotCaptured(f"its queries have the shape {tuple(query.shape)}, in which heads cannot be told apart")
    return matching.pop()
