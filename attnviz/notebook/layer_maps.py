"""Layers from what people have in a notebook: arrays, outputs of models, traces, layers."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from attnviz.figures.maps import axis_tokens
from attnviz.formatting import dimensions
from attnviz.inputs import Inputs
from attnviz.layer import Fidelity, Kind, Layer, LayerId
from attnviz.mechanism import Attention, Mechanism
from attnviz.notebook.generation_steps import CAPTURING, are_steps, join_steps
from attnviz.trace import Trace
from attnviz.tracing.joined_passes import joined_layers
from attnviz.weights_only import FixedWeights, WeightsOnly

Tokens: TypeAlias = Sequence[str] | None
# The fields of a transformers output, the stack that each belongs to, and whether it is cross-attention.
OUTPUTS = {
    "encoder_attentions": ("encoder", False),
    "decoder_attentions": ("decoder", False),
    "attentions": ("layer", False),
    "cross_attentions": ("decoder", True),
    "vision_attentions": ("vision", False),
}
PATTERN = ".hook_pattern"  # how TransformerLens ends the names of weights in a cache
ACCEPTED = (
    "Give weights of shape (queries, keys), (heads, queries, keys) or (layers, heads, queries, keys), the attentions "
    "of a model's output, a cache of TransformerLens, a layer, a trace, traces, a source, or inputs with a mechanism."
)


def layer_maps(source: Any, tokens: Tokens = None, key_tokens: Tokens = None) -> tuple[Layer, ...]:
    """Returns the layers of a source; `tokens` and `key_tokens` are those of its queries and keys.

    Of an encoder–decoder model `tokens` are those of the decoder, and `key_tokens` those of the encoder. A layer or a
    trace has tokens of its own, which these replace. Raises ValueError if the source is of another kind, or has other
    numbers of tokens.

    Example:
        >>> [layer] = layer_maps(np.eye(2), ["it", "is"])
        >>> layer.weights, layer.inputs.key_tokens
        (tensor([[[1., 0.],
                 [0., 1.]]]), ('it', 'is'))
    """
    tokens, key_tokens = _list_of_texts("tokens", tokens), _list_of_texts("key_tokens", key_tokens)
    if isinstance(source, nn.Module):
        raise ValueError(f"{type(source).__name__} is a model. Show attnviz.capture(model, …), which runs it once.")
    if isinstance(source, list) and source and isinstance(getattr(source[-1], "trace", None), Trace):
        source = source[-1]  # the last of the steps of a text, which has all tokens
    if isinstance(getattr(source, "trace", None), Trace):
        source = source.trace
    if callable(getattr(source, "layers", None)):
        source = source.layers()
    if isinstance(source, Layer):
        return (_renamed(source, tokens, key_tokens),)
    if isinstance(source, Attention):
        return (_from_weights(LayerId(), source.maps, tokens or source.query_tokens, key_tokens or source.key_tokens),)
    if isinstance(source, Mapping) or (hasattr(source, "items") and not hasattr(source, "__array__")):
        return _from_output(dict(source.items()), tokens, key_tokens)
    if isinstance(source, Sequence) and not isinstance(source, str | bytes):
        if not source:
            raise ValueError(f"There is no layer in this {type(source).__name__}. {ACCEPTED}")
        if isinstance(source[0], Trace):
            source = joined_layers(source)
        if isinstance(source[0], Layer):
            return tuple(_renamed(layer, tokens, key_tokens) for layer in source)
        if isinstance(source[0], Tensor) or hasattr(source[0], "__array__") or source[0] is None or are_steps(source):
            return tuple(_from_stack(source, "layer", Kind.SELF, tokens, key_tokens))
    return _from_array(_as_tensor(source), tokens, key_tokens)


def is_list_of_texts(value: Any) -> bool:
    """Returns whether a value is a list of texts, or an array, a pandas Index or a Series of them.

    Example:
        >>> is_list_of_texts(np.array(["it", "is"])), is_list_of_texts("it is"), is_list_of_texts(np.eye(2))
        (True, False, False)
    """
    if getattr(value, "ndim", None) == 1 and hasattr(value, "tolist"):
        value = value.tolist()
    return isinstance(value, Sequence) and not isinstance(value, str) and all(isinstance(one, str) for one in value)


def apply(mechanism: Mechanism, inputs: Inputs) -> Layer:
    """Returns a layer of these inputs under a mechanism."""
    return Layer(LayerId(), Kind.SELF if inputs.queries == inputs.keys else Kind.CROSS, inputs, mechanism)


def _renamed(layer: Layer, tokens: Tokens, key_tokens: Tokens) -> Layer:
    """Returns a layer with the tokens that are given."""
    if tokens is None and key_tokens is None:
        return layer
    inputs = layer.inputs
    queries = tuple(tokens or inputs.query_tokens)
    keys = tuple(key_tokens or (tokens if tokens and layer.kind is not Kind.CROSS else inputs.key_tokens))
    return replace(layer, inputs=inputs.with_tokens(query_tokens=queries, key_tokens=keys))


def _from_output(fields: Mapping[str, Any], tokens: Tokens, key_tokens: Tokens) -> tuple[Layer, ...]:
    """Returns the layers in the output of a model, or in a cache of TransformerLens."""
    patterns = [value for name, value in fields.items() if name.endswith(PATTERN)]
    if patterns:
        return tuple(_from_stack(patterns, "layer", Kind.SELF, tokens, key_tokens))
    layers: list[Layer] = []
    fields = _separated(fields)
    for name, (stack, is_cross) in OUTPUTS.items():
        if fields.get(name) is None or not len(fields[name]):
            continue
        if is_cross and fields.get("attentions") is not None:
            stack = OUTPUTS["attentions"][0]
        is_encoder = stack == "encoder" and "decoder_attentions" in fields
        kind = Kind.CROSS if is_cross else Kind.SELF
        names = (key_tokens, key_tokens) if is_encoder else (tokens, key_tokens if is_cross else None)
        layers += _from_stack(fields[name], stack, kind, *names)
    if not layers:
        raise ValueError(
            f"No attention is in this output; it has {', '.join(map(repr, fields)) or 'no field'}. {_advice(fields)}"
        )
    return tuple(layers)


def _advice(fields: Mapping[str, Any]) -> str:
    """Returns what to do with an output in which no field has a known name."""
    parts = [name for name, value in fields.items() if isinstance(value, Mapping) and value.keys() & OUTPUTS.keys()]
    parts += [name for name, value in fields.items() if name.endswith("attentions") and value is not None]
    if parts:
        return f"Show a part of it: {' or '.join(f'output.{name}' for name in parts)}."
    return 'Call a transformers model with output_attentions=True, after model.set_attn_implementation("eager").'


def _separated(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the fields of an output whose attentions hold those of both kinds, as a Q-Former's, with each kind apart,
    by the index of its layer."""
    both, cross = (fields.get(name) for name in ("attentions", "cross_attentions"))
    if not (isinstance(both, list | tuple) and isinstance(cross, list | tuple)):
        return fields
    is_cross = [any(weights is other for other in cross if other is not None) for weights in both]
    if not any(is_cross):
        return fields
    by_index: tuple[dict[int, Any], dict[int, Any]] = {}, {}
    for weights, crosses in zip(both, is_cross, strict=True):  # a layer's cross-attention follows its self-attention
        by_index[crosses][len(by_index[0]) - crosses] = weights
    return {**fields, "attentions": by_index[0], "cross_attentions": by_index[1]}


def _from_stack(
    stack: Sequence[Any] | Mapping[int, Any], name: str, kind: Kind, tokens: Tokens, key_tokens: Tokens
) -> list[Layer]:
    """Returns the layers of a stack of weights, (heads, queries, keys) each, with an axis of one example before; or of
    the steps of `generate`. Layers without weights, as some of a hybrid model are, are left out."""
    if not isinstance(stack, Mapping):
        if are_steps(stack):
            tensors = [[None if weights is None else _as_tensor(weights) for weights in step] for step in stack]
            stack = join_steps(tensors, is_cross=kind is Kind.CROSS)
        stack = dict(enumerate(stack))
    layers = []
    for index, weights in stack.items():
        if weights is None:
            continue
        tensor = _as_tensor(weights)
        if tensor.ndim == 4 and len(tensor) > 1:
            raise ValueError(
                f"Layer {index} has weights of {len(tensor)} examples, {dimensions(tensor.shape)}. Choose one: "
                "[weights[0] for weights in attentions]."
            )
        layers.append(
            _from_weights(LayerId(name, index, kind is Kind.CROSS), _heads(tensor), tokens, key_tokens, kind=kind)
        )
    if not layers:
        raise ValueError(
            "These layers have no weights. Call the model with output_attentions=True, after "
            'model.set_attn_implementation("eager"), or use attnviz.capture, which needs neither.'
        )
    _check_one_kind(layers)
    return layers


def _check_one_kind(layers: Sequence[Layer]) -> None:
    """Raises ValueError for maps of different sizes that may be self- and cross-attention, or steps of a generation."""
    sizes = {(layer.inputs.queries, layer.inputs.keys): layer.id for layer in layers}
    if len(sizes) > len({queries for queries, _ in sizes}) or (len(sizes) > 1 and any(q < k for q, k in sizes)):
        (one, first), (other, second), *_ = ((dimensions(size), name) for size, name in sizes.items())
        raise ValueError(
            f"{first} has maps of {one} and {second} of {other}: they may be self- and cross-attention, or steps of a "
            f"generation. {CAPTURING}"
        )


def _from_array(weights: Tensor, tokens: Tokens, key_tokens: Tokens) -> tuple[Layer, ...]:
    while weights.ndim > 4 and 1 in weights.shape[:2]:  # one example, before or after the layers
        weights = weights.squeeze(weights.shape[:2].index(1))
    if weights.ndim == 5:
        raise ValueError(
            f"These weights have the shape {dimensions(weights.shape)}. If their second axis is that of the examples, "
            "choose one: weights[:, 0]."
        )
    if weights.ndim != 4:
        return (_from_weights(LayerId(), _heads(weights), tokens, key_tokens),)
    return tuple(_from_weights(LayerId(index=i), one, tokens, key_tokens) for i, one in enumerate(weights))


def _heads(weights: Tensor) -> Tensor:
    """Returns weights as (heads, queries, keys)."""
    while weights.ndim > 3 and len(weights) == 1:
        weights = weights[0]
    if weights.ndim == 2:
        return weights[None]
    if weights.ndim != 3:
        raise ValueError(f"These weights have the shape {dimensions(weights.shape)}. {ACCEPTED}")
    return weights


def _from_weights(
    name: LayerId, weights: Tensor, tokens: Tokens, key_tokens: Tokens, kind: Kind | None = None
) -> Layer:
    queries, keys = weights.shape[1:]
    if not key_tokens and queries == keys and kind is not Kind.CROSS:
        key_tokens = tokens
    query_tokens = tuple(axis_tokens("tokens", tokens, queries))
    key_tokens = tuple(axis_tokens("key_tokens", key_tokens, keys))
    kind = kind or (Kind.SELF if query_tokens == key_tokens else Kind.CROSS)
    return Layer(name, kind, WeightsOnly(weights, query_tokens, key_tokens), FixedWeights(), Fidelity.WEIGHTS_ONLY)


def _list_of_texts(name: str, texts: Any) -> Tokens:
    if isinstance(texts, str) or getattr(texts, "ndim", 1) != 1:
        got = "one text" if isinstance(texts, str) else f"an array of {texts.ndim} axes"
        raise ValueError(f"{name} must be a list of texts, one for each token; it is {got}. Split it first.")
    return None if texts is None else [*map(str, texts.tolist() if hasattr(texts, "tolist") else texts)]


def _as_tensor(values: Any) -> Tensor:
    """Returns numbers as a tensor. Raises ValueError if they are not real numbers."""
    tensor = values.detach() if isinstance(values, Tensor) else None
    if tensor is None:
        array = np.asarray(values) if hasattr(values, "__array__") or isinstance(values, Sequence) else None
        if array is None or isinstance(values, str | bytes) or array.dtype.kind not in "fiub":
            raise ValueError(f"This {type(values).__name__} holds no weights. {ACCEPTED}")
        tensor = torch.from_numpy(np.ascontiguousarray(array))
    if tensor.is_complex():
        raise ValueError("These weights are complex numbers. Give real ones.")
    return tensor
