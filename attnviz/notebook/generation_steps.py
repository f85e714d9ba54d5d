"""The attentions of the steps of `generate`, joined into one map of each layer."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from attnviz.base.formatting import dimensions

CAPTURING = "Run the model in attnviz.capturing(model), which records what each pass attends to, and show that."


def are_steps(stack: Sequence[Any]) -> bool:
    """Returns whether these are steps of layers, as `generate` returns attentions, rather than layers."""
    return len(stack) > 0 and all(isinstance(step, list | tuple) and all(map(_is_layer, step)) for step in stack)


def _is_layer(weights: Any) -> bool:
    return weights is None or getattr(weights, "ndim", 0) > 1


def join_steps(steps: Sequence[Sequence[Tensor | None]], *, is_cross: bool) -> list[Tensor | None]:
    """Returns the weights of each layer, (heads, queries, keys), of all steps; NaN where a key came after the query,
    and None for a layer without weights.

    A step has new queries alone, with the keys of all tokens so far, which may have free places after them, or where
    there is no cache all queries again. Raises ValueError if the shapes show neither, as where a cache drops tokens.
    """
    if len({*map(len, steps)}) > 1:
        raise ValueError(f"The steps have different numbers of layers. {CAPTURING}")
    by_layer = [[weights for weights in layer if weights is not None] for layer in zip(*steps, strict=True)]
    return [_join(index, layer, is_cross) if layer else None for index, layer in enumerate(by_layer)]


def _join(layer: int, steps: Sequence[Tensor], is_cross: bool) -> Tensor:
    if any(weights.ndim != 4 for weights in steps):
        raise ValueError(f"Layer {layer} has weights of the shape {_shapes(steps)}. {CAPTURING}")
    if any(len(weights) != 1 for weights in steps):
        raise ValueError(
            f"Layer {layer} has weights of several sequences or beams in a step, {_shapes(steps)}. Generate one "
            "sequence with num_beams=1."
        )
    if not is_cross:
        steps = _without_free_places(steps)
    queries, keys = ([weights.shape[axis] for weights in steps] for axis in (2, 3))
    is_repeated = queries == [*range(queries[0], queries[0] + len(steps))]  # without a cache
    expected = keys[:1] * len(steps) if is_cross else [keys[0] + n - queries[0] for n in accumulate(queries)]
    if is_repeated and keys == (expected if is_cross else queries):
        return steps[-1][0]
    if keys != expected or len({weights.shape[1] for weights in steps}) > 1:
        raise ValueError(
            f"Layer {layer} has weights of {_shapes(steps)} in the steps, which do not join into one map, as where a "
            f"cache drops tokens, or where cross-attention is given without the rest of the output. {CAPTURING}"
        )
    joined = steps[0].new_full((steps[0].shape[1], sum(queries), keys[-1]), torch.nan)
    for last, weights in zip(accumulate(queries), steps, strict=True):
        joined[:, last - weights.shape[2] : last, : weights.shape[3]] = weights[0]
    return joined


def _without_free_places(steps: Sequence[Tensor]) -> Sequence[Tensor]:
    """Returns the steps of a cache of constant length without its places for later tokens, which have no weight."""
    counts = [*accumulate(weights.shape[2] for weights in steps)]
    is_constant = len({weights.shape[3] for weights in steps}) == 1 and counts[-1] <= steps[0].shape[3]
    if not is_constant or any(bool(weights[..., count:].any()) for weights, count in zip(steps, counts, strict=True)):
        return steps
    return [weights[..., :count] for weights, count in zip(steps, counts, strict=True)]


def _shapes(steps: Sequence[Tensor]) -> str:
    some = [dimensions(weights.shape) for weights in steps[:3]]
    return ", ".join(some) + (", …" if len(steps) > 3 else "")
