"""Attention weights in what modules of a model returned, by their paths: as nnsight and TransformerLens keep them."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from attnviz.base.token_texts import token_names
from attnviz.notebook.generation_steps import join_steps

PATTERN = re.compile(r"\.hook_(cross_)?pattern$")  # how TransformerLens ends the names of weights
HOOK = ".hook_"
EMBEDDINGS = ("embed", "decoder_embed")  # the modules of TransformerLens that get the ids of tokens
MOST_ROUNDING = 0.02  # how much more than 1 the weights of a query may sum to, in bfloat16


def returned_weights(value: Any) -> Any:
    """Returns the weights in what a module of attention returned, (output, …, weights), with an output of (examples,
    queries, width) or (examples, queries, heads, width) and weights (examples, heads, queries, keys); None for anything
    else."""
    if not (isinstance(value, list | tuple) and len(value) > 1):
        return None
    output, weights = (tuple(getattr(part, "shape", ())) for part in (value[0], value[-1]))
    if len(weights) != 4 or output == weights:
        return None
    examples, heads, queries, _ = weights
    is_output = len(output) == 3 and output[:2] == (examples, queries)
    is_by_head = len(output) == 4 and output[:3] == (examples, queries, heads)
    return value[-1] if is_output or is_by_head else None


def returned_none(value: Any) -> bool:
    """Returns whether a module of attention returned an output without weights, as it does if it is not eager: a layer
    with weights and one without, as in a hybrid model, are not (output, None), since weights are not negative."""
    if not (isinstance(value, tuple) and len(value) > 1 and value[-1] is None):
        return False
    return isinstance(value[0], Tensor) and value[0].ndim == 3 and bool((value[0] < 0).any())


def weights_by_module(fields: Mapping[Any, Any]) -> dict[str, list[Any]]:
    """Returns the weights of the modules of attention by their paths, a tensor for each call.

    The fields are the entries of a cache of TransformerLens by their names, what nnsight has cached of modules, what
    modules returned, or their weights. Modules around a module of attention, which return its weights, are left out.
    """
    named = {str(path): value for path, value in fields.items()}
    if any(HOOK in path for path in named):
        return {path: [value] for path, value in named.items() if PATTERN.search(path)}
    by_path: dict[str, list[Any]] = {}
    for path, value in named.items():
        if re.search(r"\d", path) and _are_weights(value):
            by_path[path] = [value]
            continue
        calls = _calls(value)
        weights = [returned_weights(returned) for returned in calls]
        if calls and all(tensor is not None for tensor in weights):
            by_path[path] = weights
    return {
        path: calls for path, calls in by_path.items() if not any(other.startswith(f"{path}.") for other in by_path)
    }


def _calls(value: Any) -> list[Any]:
    """Returns what a module returned in each of its calls."""
    returned = getattr(value, "output", value)
    return [getattr(call, "output", call) for call in returned] if isinstance(returned, list) else [returned]


def _are_weights(value: Any) -> bool:
    """Returns whether a tensor (heads, queries, keys), with or without an axis of examples, may hold weights."""
    if not isinstance(value, Tensor) or value.ndim not in (3, 4) or not value.is_floating_point():
        return False
    weights = value.detach().nan_to_num(0)
    return bool((weights >= 0).all()) and bool((weights.sum(-1) <= 1 + MOST_ROUNDING).all())


def joined_calls(calls: Sequence[Tensor], *, is_cross: bool) -> Sequence[Tensor | None]:
    """Returns the weights of a module's calls: joined if they are steps of a generation, or else as they are, as where
    layers share a module."""
    if len(calls) == 1 or (not is_cross and len({call.shape for call in calls}) == 1):
        return calls
    return join_steps([[call] for call in calls], is_cross=is_cross)


def cached_tokens(cache: Any, fields: Mapping[Any, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the texts of the tokens in a cache of TransformerLens, of the text, or of an encoder, and of a decoder;
    none where the cache has no ids of one text, or its model no tokenizer."""
    tokenizer: Any = getattr(getattr(cache, "model", None), "tokenizer", None)
    if not hasattr(tokenizer, "convert_ids_to_tokens"):
        return (), ()
    source, target = (_ids_of_one_text(fields.get(f"{name}{HOOK}in")) for name in EMBEDDINGS)
    return token_names(tokenizer, source), token_names(tokenizer, target)


def _ids_of_one_text(ids: Any) -> list[int]:
    is_of_one = isinstance(ids, Tensor) and (ids.ndim == 1 or (ids.ndim == 2 and len(ids) == 1))
    return ids.flatten().tolist() if is_of_one and not ids.is_floating_point() else []
