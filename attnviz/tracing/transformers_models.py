"""How transformers models are captured: by the attention functions and the masks that they themselves ask for.

This module alone imports transformers, and it is imported only in programs that already have.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.cache_utils import Cache
from transformers.masking_utils import causal_mask_function, eager_mask, sdpa_mask

from attnviz.tracing.call import Call
from attnviz.tracing.head_axes import configs_of
from attnviz.tracing.lazy_mask import LazyMask, MakeMask, lazy_mask
from attnviz.tracing.recording import Recording, current_recording
from attnviz.tracing.shared_context import SharedContext

# What makes the masks of attention that is recorded, and the number type of their cells, if it is not that of states.
MASKS: dict[str, MakeMask] = {"eager": eager_mask, "sdpa": sdpa_mask}
NUMBER_TYPES: dict[MakeMask, dict[str, Any]] = {eager_mask: {}, sdpa_mask: {"dtype": torch.bool}}
RECORDED = {None, *MASKS}
ENTRIES = "attnviz_entries"  # an attribute of caches


def models_in(model: nn.Module) -> list[PreTrainedModel]:
    """Returns the transformers models in a module, without those inside another of them."""
    if isinstance(model, PreTrainedModel):
        return [model]
    return [*dict.fromkeys(inner for part in model.children() for inner in models_in(part))]


@contextmanager
def attention_of_capture(model: nn.Module, recording: Recording) -> Iterator[None]:
    """Records the attention of the transformers models in a module, and which keys their caches hold. Eager attention
    takes the place of an implementation that cannot be recorded, which is restored."""
    parts = (part for part in models_in(model) if any(_can_change(inner) for inner in part.modules()))
    implementations = [
        (config, name)
        for config in chain(*map(configs_of, parts))
        if (name := config._attn_implementation_internal) not in RECORDED
    ]
    recording.replaced = {name for _, name in implementations}
    try:
        for config, _ in implementations:
            config._attn_implementation_internal = "eager"
        with observed_caches, observed_attention:
            yield
    finally:
        for config, name in implementations:
            config._attn_implementation_internal = name


def encoder_of(model: nn.Module) -> nn.Module | None:
    """Returns the encoder of an encoder–decoder model, which `generate` runs by itself."""
    if not isinstance(model, PreTrainedModel) or not model.config.is_encoder_decoder:
        return None
    encoder = model.get_encoder()
    return None if encoder is model else encoder


def _can_change(module: nn.Module) -> bool:
    """Returns whether another attention implementation of its config is another one of a module."""
    return bool(getattr(module, "_can_set_attn_implementation", bool)())


@contextmanager
def _observe() -> Iterator[None]:
    """Records the attention functions that transformers models themselves call, with their masks, which a capture makes
    row by row. What they compute is what they would without it."""
    get_interface = AttentionInterface.get_interface

    def observing_interface(functions: AttentionInterface, implementation: str, eager: Callable) -> Callable:
        own: Callable = get_interface(functions, implementation, eager)
        recording = current_recording.get()
        if recording is None or recording.busy:
            return own

        def attention(
            module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Any, **options: Any
        ) -> Any:
            if isinstance(attention_mask, LazyMask):
                attention_mask = attention_mask.as_it_is()
            known = implementation in RECORDED
            sequences = max(len(query), len(key))
            mask = _mask(implementation, module, query, key, attention_mask, options) if known else None
            query, key, value = (one.expand(sequences, -1, -1, -1) for one in (query, key, value))
            call = Call(module, query, key, value, mask, options, own=own, eager=eager)
            if known and not recording.observes:
                return recording.capture_call(call).contiguous(), None
            with recording.nested():
                result = own(module, query, key, value, attention_mask, **options)
            return recording.observe(call, result, "" if known else implementation)

        return attention

    masks = {name: partial(_mask_of_recording, make) for name, make in MASKS.items()}
    with (
        patch.object(AttentionInterface, "get_interface", observing_interface),
        patch.dict(AttentionMaskInterface._global_mapping, masks),
    ):
        yield


def _mask_of_recording(make: MakeMask, **arguments: Any) -> Tensor | None:
    """Returns what a function of transformers makes of these arguments, in a capture row by row."""
    recording = current_recording.get()
    if recording is None or recording.observes or recording.busy:
        return make(**arguments)
    return lazy_mask(make, **arguments | NUMBER_TYPES[make], keep=recording.chunked is not None)


@contextmanager
def _observe_caches() -> Iterator[None]:
    """Records which keys caches hold. What is known of them stays with the cache, also when it is copied."""
    update = Cache.update

    def observed_update(
        cache: Cache, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        recording = current_recording.get()
        past = int(Cache.get_seq_length(cache, layer_idx)) if recording else 0
        keys, values = update(cache, key_states, value_states, layer_idx, *args, **kwargs)
        if recording is not None:
            entries = vars(cache).setdefault(ENTRIES, {}).setdefault(layer_idx, {})
            recording.add_cached_keys(entries, past, (key_states, value_states), (keys, values))
        return keys, values

    with patch.object(Cache, "update", observed_update):
        yield


observed_attention = SharedContext(_observe)
observed_caches = SharedContext(_observe_caches)


def _mask(implementation: str, module: nn.Module, query: Tensor, key: Tensor, mask: Any, options: Any) -> Any:
    """Returns what an implementation does with a mask: booleans that allow keys, which sdpa alone understands, or
    numbers that are added to scores; also where the mask is an argument of sdpa alone."""
    if implementation != "sdpa":
        is_added = mask is None or isinstance(mask, LazyMask) or mask.is_floating_point()
        return mask if is_added else mask.to(query.dtype)
    causal = options.get("is_causal")
    causal = getattr(module, "is_causal", True) if causal is None else causal
    if mask is not None or query.shape[2] == 1 or not causal:
        return mask
    lengths = {"batch_size": len(query), "q_length": query.shape[2], "kv_length": key.shape[2]}
    rule = {"mask_function": causal_mask_function, "device": query.device}
    return LazyMask(sdpa_mask, rule | lengths | NUMBER_TYPES[sdpa_mask])
