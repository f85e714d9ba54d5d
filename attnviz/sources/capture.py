"""The queries, keys and values inside any model that speaks transformers' AttentionInterface."""

import re
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import bidirectional_mask_function, causal_mask_function

from attnviz.biases import SoftCap
from attnviz.inputs import Inputs, Layer
from attnviz.masks import Causal, Full, Mask, Padding
from attnviz.mechanism import Mechanism
from attnviz.scores import ScaledDot

NAME = "attnviz"
CROSS = re.compile(r"cross|enc_?dec_?att|encoder_attn", re.IGNORECASE)
UNKNOWN = ("position_bias", "s_aux", "sinks", "indices", "block_indices")  # what else can change a score


@dataclass(frozen=True)
class ModelMask(Mask):
    """The model's own rule of who may look at whom; each has a number, by which two are told apart."""

    rule: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor] = field(repr=False, compare=False)
    serial: int = field(default_factory=count().__next__)

    def __call__(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return self.rule(b, h, q, k)


@dataclass
class _Record:
    """What one forward is told, and what it has left so far."""

    names: dict[torch.nn.Module, str]
    decodes: bool  # the model has an encoder and a decoder; the tokens are the encoder's
    tokens: tuple[str, ...] | None
    special: tuple[int, ...]
    layers: list[Layer] = field(default_factory=list)


_record: ContextVar[_Record] = ContextVar("attnviz_record")


@torch.no_grad()
def capture(
    model: Any, batch: Mapping[str, Any], *, tokens: tuple[str, ...] | None = None, special: tuple[int, ...] = ()
) -> list[Layer]:
    """Every attention of one forward of `model` on `batch`, one example, in the order in which they ran.

    Each layer's mechanism gives the model's own weights. `tokens` are what to write on the axes (by default what
    the tokenizer calls them), `special` the positions of tokens that are no text. The model is left as it was
    found; run no other forward of the same model object meanwhile. Raises NotImplementedError for a model whose
    attention is computed in a way that is not understood here.
    """
    if not model._can_set_attn_implementation():
        raise NotImplementedError(f"{type(model).__name__} does not hand its queries and keys to AttentionInterface.")
    if tokens is None and hasattr(batch, "tokens"):
        tokens = tuple(batch.tokens())
    record = _Record(
        {module: name for name, module in model.named_modules()},
        bool(getattr(model.config, "is_encoder_decoder", False)),
        tokens,
        special,
    )
    training = {module: module.training for module in model.modules()}
    implementations = [(config, config._attn_implementation_internal) for config in _configs(model)]
    token = _record.set(record)
    try:
        model.eval().set_attn_implementation(NAME)
        model(**batch)
    finally:
        for config, implementation in implementations:
            config._attn_implementation_internal = implementation
        for module, was in training.items():
            module.training = was
        _record.reset(token)
    return _told_apart(record.layers)


def _told_apart(layers: list[Layer]) -> list[Layer]:
    """Layers whose names differ: a model that calls one module again and again numbers its calls."""
    names = [layer.name for layer in layers]
    return [
        replace(layer, name=f"{layer.name} · {names[:i].count(layer.name)}") if names.count(layer.name) > 1 else layer
        for i, layer in enumerate(layers)
    ]


def _configs(model: Any) -> list[Any]:
    """The configurations of a model and of its parts, each of which can have an implementation of its own."""
    waiting = [module.config for module in model.modules() if hasattr(module, "config")]
    found: dict[int, Any] = {}
    while waiting:
        config = waiting.pop()
        if id(config) not in found and hasattr(config, "_attn_implementation_internal"):
            found[id(config)] = config
            waiting += [part for name in config.sub_configs if (part := getattr(config, name, None)) is not None]
    return list(found.values())


def _attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    **more: Any,
) -> tuple[Tensor, None]:
    """What the model calls in place of its own attention: keeps what it is given, and computes with our core."""
    record = _record.get()
    name = record.names[module]
    if strange := [key for key in UNKNOWN if more.get(key) is not None]:
        raise NotImplementedError(f"The attention of {name} depends on {', '.join(strange)}, which is not shown yet.")
    if len(query) != 1:
        raise ValueError(f"One example at a time can be captured; the batch holds {len(query)}.")
    mask = _mask_of(module, attention_mask, bool(more.get("is_causal")), name)
    softcap = more.get("softcap")
    mechanism = Mechanism(
        score=ScaledDot() if scaling in (None, query.shape[-1] ** -0.5) else ScaledDot(scaling),
        biases=() if softcap is None else (SoftCap(float(softcap)),),
        mask=mask,
    )
    cross = bool(getattr(module, "is_cross_attention", False)) or bool(CROSS.search(f"{name} {type(module).__name__}"))
    queries, keys = query.shape[2], key.shape[2]
    decoding = record.decodes and "decoder" in name
    query_tokens = record.tokens if record.tokens and not decoding else ()
    key_tokens = record.tokens if record.tokens and (cross or not decoding) else ()
    inputs = Inputs(
        query=_own(query),
        key=_own(key),
        value=_own(value),
        query_tokens=_named(query_tokens, queries),
        key_tokens=_named(key_tokens, keys),
        special_queries=record.special if len(query_tokens) == queries else (),
        special_keys=record.special if len(key_tokens) == keys else (),
    )
    kind = "cross" if cross else "causal" if _looks_back(mask, queries, keys) else "self"
    record.layers.append(Layer(_layer_name(name) + " cross" * cross, kind, inputs, mechanism))
    return mechanism(inputs).output.transpose(0, 1)[None].to(query.dtype), None


def _mask_interface(
    *, mask_function: Callable, batch_size: int, q_length: int, kv_length: int, attention_mask: Any = None, **more: Any
) -> Tensor:
    """What the model calls to make a mask: a tensor of the right shape that costs nothing and carries the rule."""
    if int(more.get("q_offset", 0)) or int(more.get("kv_offset", 0)):
        raise NotImplementedError("Queries that continue a cache cannot be captured. Give the model use_cache=False.")
    known: dict[Callable, Mask] = {causal_mask_function: Causal(), bidirectional_mask_function: Full()}
    mask = known.get(mask_function) or ModelMask(mask_function)
    if attention_mask is not None and not bool(attention_mask.all()):
        mask = mask & Padding(tuple(bool(kept) for kept in attention_mask[0]))
    carrier = torch.ones(1, dtype=torch.bool).expand(batch_size, 1, q_length, kv_length)
    carrier.attnviz_mask = mask  # type: ignore[attr-defined]
    return carrier


def _mask_of(module: torch.nn.Module, carrier: Tensor | None, is_causal: bool, name: str) -> Mask:
    if carrier is None:
        return Causal() if is_causal or getattr(module, "is_causal", False) else Full()
    mask = getattr(carrier, "attnviz_mask", None)
    if mask is None:  # the model computed with the carrier, so what arrives says nothing
        raise NotImplementedError(f"The mask of {name} is made by the model itself, which is not shown yet.")
    return mask


def _looks_back(mask: Mask, queries: int, keys: int) -> bool:
    """Whether no query sees a later key, read off the mask at the first query and at one in the middle."""
    some, k = torch.tensor([[0], [queries // 2]]), torch.arange(keys)
    seen = mask.fit(queries, keys)(torch.tensor(0), torch.tensor(0), some, k).expand(2, keys)
    return queries == keys > 1 and not bool((seen & (k > some)).any())


def _own(tensor: Tensor) -> Tensor:
    """The example as numbers of its own, that keep nothing else of the model's alive."""
    return tensor[0].float().clone(memory_format=torch.contiguous_format)


def _named(tokens: tuple[str, ...], count: int) -> tuple[str, ...]:
    return tokens if len(tokens) == count else tuple(map(str, range(count)))


def _layer_name(module: str) -> str:
    stack = re.search(r"encoder|decoder", module)
    number = re.search(r"\.(\d+)\.", module)
    return f"{stack.group() if stack else 'layer'} {number.group(1) if number else module}"


AttentionInterface.register(NAME, _attention)
AttentionMaskInterface.register(NAME, _mask_interface)
