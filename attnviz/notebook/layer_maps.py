"""Layers from what people have in a notebook: arrays, outputs of models, traces, layers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from attnviz.base.formatting import dimensions
from attnviz.base.plain_tensor import plain_array, plain_tensor
from attnviz.figures.maps import axis_tokens
from attnviz.inputs import Inputs
from attnviz.layer import Fidelity, FixedWeights, Kind, Layer, LayerId, WeightsOnly
from attnviz.mechanism import Attention, Mechanism
from attnviz.notebook.generation_steps import CAPTURING, are_steps, join_steps
from attnviz.notebook.module_weights import (
    HOOK,
    cached_tokens,
    joined_calls,
    returned_none,
    returned_weights,
    weights_by_module,
)
from attnviz.trace import Trace
from attnviz.tracing.joined_passes import joined_layers
from attnviz.tracing.layer_naming import layer_id, with_unique_ids

Tokens: TypeAlias = Sequence[str] | None
# The fields of a transformers output, the stack that each belongs to, and whether it is cross-attention.
OUTPUTS = {
    "encoder_attentions": ("encoder", False),
    "decoder_attentions": ("decoder", False),
    "attentions": ("layer", False),
    "cross_attentions": ("decoder", True),
    "vision_attentions": ("vision", False),
}
ONE_OF_STACK = (
    "Choose one: [weights[0] for weights in attentions]. If they are windows of an image, attnviz.capture joins them."
)
ONE_OF_CACHE = "Choose one: cache.apply_slice_to_batch_dim(0) of TransformerLens; with nnsight trace one text."
MOST_NAMES = 6  # of fields that are named to a person
ACCEPTED = (
    "Give weights of shape (queries, keys), (heads, queries, keys) or (layers, heads, queries, keys), the attentions "
    "of a model's output, a cache of TransformerLens or nnsight, attention of inseq, a layer, a trace, traces, a "
    "source, or inputs with a mechanism."
)
EAGER = (
    'Call the model with output_attentions=True, after model.set_attn_implementation("eager"), or use attnviz.capture, '
    "which needs neither."
)


def is_attribution(source: Any) -> bool:
    """Returns whether this is what `attribute` of inseq returns, or the attributions of one text in it."""
    return hasattr(source, "sequence_attributions") or hasattr(source, "target_attributions")


def attributed_attention(source: Any) -> Iterator[tuple[LayerId, Tensor, Sequence[str], Sequence[str]]]:
    """Yields the id of each layer, its weights (heads, queries, keys), and the tokens of queries and keys, where a
    query is the token before the attributed token: the model read it when that one was next.

    Raises ValueError for attributions of several texts, or of another method than `attention`.
    """
    texts = getattr(source, "sequence_attributions", [source])
    if len(texts) != 1:
        raise ValueError(f"These are attributions of {len(texts)} texts. Show one: out.sequence_attributions[0].")
    [text] = texts
    targets, sources = ([word.token for word in side or ()] for side in (text.target, text.source))
    queries = targets[text.attr_pos_start - 1 : text.attr_pos_end - 1]
    has_source = text.source_attributions is not None
    for scores, keys in ((text.target_attributions, targets), (text.source_attributions, sources)):
        if scores is None:
            continue
        if scores.ndim != 4:
            raise ValueError(
                f"These attributions have the shape {dimensions(scores.shape)}; attention has one of (keys, queries, "
                "layers, heads). Use inseq.load_model(…, 'attention'), and do not aggregate what attribute returns."
            )
        for index, weights in enumerate(scores.permute(2, 3, 1, 0)):
            yield LayerId("decoder" if has_source else "layer", index, keys is sources), weights, queries, keys


def layer_maps(source: Any, tokens: Tokens = None, key_tokens: Tokens = None) -> tuple[Layer, ...]:
    """Returns the layers of a source; `tokens` and `key_tokens` are those of its queries and keys.

    Of an encoder–decoder model `tokens` are those of the decoder, and `key_tokens` those of the encoder. A layer or a
    trace has tokens of its own, which these replace. Raises ValueError if the source is of another kind, or has other
    numbers of tokens.

    Example:
        >>> import numpy as np
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
    if is_attribution(source):
        return tuple(
            _from_weights(id, maps, tokens or own, key_tokens or keys, Kind.CROSS if id.cross else Kind.SELF)
            for id, maps, own, keys in attributed_attention(source)
        )
    if callable(getattr(source, "keys", None)) and not hasattr(source, "__array__"):
        fields = {name: source[name] for name in source.keys()}  # noqa: SIM118 - that of nnsight has keys alone
        return _from_modules(source, fields, tokens, key_tokens) or _from_output(fields, tokens, key_tokens)
    if (weights := returned_weights(source)) is not None:
        return _from_array(_as_tensor(weights), tokens, key_tokens)
    if isinstance(source, Sequence) and not isinstance(source, str | bytes):
        if not source:
            raise ValueError(f"There is no layer in this {type(source).__name__}. {ACCEPTED}")
        if returned_none(source):
            raise ValueError(f"This output of a module has no weights. {EAGER}")
        if all(returned_weights(value) is not None or returned_none(value) for value in source):
            source = [returned[-1] for returned in source]
        if isinstance(source[0], Tensor) and any(value is not None and not hasattr(value, "shape") for value in source):
            raise ValueError(
                f"This {type(source).__name__} holds more than weights, as the output of a model does. Call the model "
                "with return_dict=True, or show its attentions alone."
            )
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
        >>> import numpy as np
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


def _from_modules(cache: Any, fields: Mapping[Any, Any], tokens: Tokens, key_tokens: Tokens) -> tuple[Layer, ...]:
    """Returns the layers in what is known of the modules of a model by their paths; none if it has no weights."""
    weights = weights_by_module(fields)
    ids = {path: layer_id(path) for path in weights}
    stacks = {id.stack for id in ids.values()}
    source, target = cached_tokens(cache, fields)
    layers = []
    for path, id in ids.items():
        kind = Kind.CROSS if id.cross else Kind.SELF
        is_encoder = id.stack == "encoder" and "decoder" in stacks
        queries, keys = key_tokens if is_encoder else tokens, key_tokens if id.cross else None
        own = target if id.stack == "decoder" and target else source
        if id.stack in ("vision", "audio") and len(stacks) > 1:  # the tokens are those of the text beside it
            queries, own = None, ()
        for call in joined_calls([_as_tensor(value) for value in weights[path]], is_cross=id.cross):
            maps = _heads(_of_one_example(_as_tensor(call), path, ONE_OF_CACHE))
            queries_of_call = queries or _fitting(own, maps.shape[1])
            keys_of_call = keys or (_fitting(source, maps.shape[2]) if id.cross else None)
            layers.append((_from_weights(id, maps, queries_of_call, keys_of_call, kind), path))
    return tuple(with_unique_ids(layers))


def _fitting(tokens: tuple[str, ...], count: int) -> tuple[str, ...]:
    return tokens if len(tokens) == count else ()


def _from_output(fields: Mapping[Any, Any], tokens: Tokens, key_tokens: Tokens) -> tuple[Layer, ...]:
    """Returns the layers in the output of a model."""
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
        some = ", ".join([*map(repr, fields)][:MOST_NAMES]) + (", …" if len(fields) > MOST_NAMES else "")
        raise ValueError(f"No attention is in this output; it has {some or 'no field'}. {_advice(fields)}")
    return tuple(layers)


def _advice(fields: Mapping[Any, Any]) -> str:
    """Returns what to do with an output in which no field has attention and a known name."""
    parts = [name for name, value in fields.items() if isinstance(value, Mapping) and value.keys() & OUTPUTS.keys()]
    others = {str(name): value for name, value in fields.items() if name not in OUTPUTS and value is not None}
    parts += [name for name in others if name.endswith("attentions")]
    if parts:
        return f"Show a part of it: {' or '.join(f'output.{name}' for name in parts)}."
    if any(HOOK in name for name in others):
        return (
            "Call run_with_cache without a names_filter, or with one that keeps hook_pattern, of a model with "
            'attn_implementation="eager".'
        )
    return EAGER


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
        maps = _heads(_of_one_example(_as_tensor(weights), f"Layer {index}", ONE_OF_STACK))
        layers.append(_from_weights(LayerId(name, index, kind is Kind.CROSS), maps, tokens, key_tokens, kind=kind))
    if not layers:
        raise ValueError(f"These layers have no weights. {EAGER}")
    _check_one_kind(layers)
    return layers


def _of_one_example(weights: Tensor, name: str, advice: str) -> Tensor:
    """Returns weights. Raises ValueError if they are of several examples."""
    if weights.ndim == 4 and len(weights) > 1:
        raise ValueError(f"{name} has weights of {len(weights)} examples, {dimensions(weights.shape)}. {advice}")
    return weights


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
    if isinstance(values, Tensor):
        tensor = plain_tensor(values.detach(), f"This {type(values).__name__}")
    else:
        array = None if isinstance(values, str | bytes) else plain_array(values)
        if array is None:
            dtype = f", but values of the type {values.dtype}" if hasattr(values, "dtype") else ""
            raise ValueError(f"This {type(values).__name__} holds no weights{dtype}. {ACCEPTED}")
        tensor = torch.from_numpy(array)
    if tensor.dtype in (torch.int32, torch.int64) and tensor.numel() and int(tensor.max()) > 1:
        raise ValueError(f"These are whole numbers up to {int(tensor.max()):,}, as token ids are. {ACCEPTED}")
    if tensor.is_complex():
        raise ValueError("These weights are complex numbers. Give real ones.")
    return tensor
