"""How transformers models are captured: their attention is replaced, or a running one is observed.

This module alone imports transformers, and it is imported only in programs that already have.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any
from unittest.mock import patch

from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.cache_utils import Cache
from transformers.masking_utils import causal_mask_function
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from attnviz.tracing.call import Call, as_added
from attnviz.tracing.head_axes import configs_of
from attnviz.tracing.lazy_mask import lazy_mask
from attnviz.tracing.recording import current_recording
from attnviz.tracing.shared_context import SharedContext

NAME = "attnviz"  # of the attention that records, among those of transformers
ENTRIES = "attnviz_entries"  # an attribute of caches


def models_in(model: nn.Module) -> list[PreTrainedModel]:
    """Returns the transformers models in a module, without those inside another of them."""
    if isinstance(model, PreTrainedModel):
        return [model]
    return [*dict.fromkeys(inner for part in model.children() for inner in models_in(part))]


def recorded_attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None = None, **options: Any
) -> tuple[Tensor, None]:
    """Returns the output of the model's own attention, and records its inputs if a capture is running."""
    sequences = max(len(query), len(key))
    query, key, value = (tensor.expand(sequences, -1, -1, -1) for tensor in (query, key, value))
    if attention_mask is not None:
        attention_mask = as_added(attention_mask, query.dtype)
    call, recording = Call(module, query, key, value, attention_mask, options), current_recording.get()
    # Without a recording, it is someone else's forward of a model that is being captured.
    output = call.own_output() if recording is None else recording.capture_call(call)
    return output.contiguous(), None


@cache
def register() -> str:
    """Registers this attention with transformers once, and returns its name."""
    AttentionInterface.register(NAME, recorded_attention)
    AttentionMaskInterface.register(NAME, lazy_mask)
    return NAME


@contextmanager
def attention_of_capture(model: nn.Module, implementation: str | None = None) -> Iterator[None]:
    """Gives all transformers models in a module an attention implementation, by default the one that records, and
    restores theirs. Records which keys their caches hold."""
    implementations = [(config, config._attn_implementation_internal) for config in configs_of(model)]
    try:
        for part in models_in(model):
            if any(getattr(inner, "_can_set_attn_implementation", bool)() for inner in part.modules()):
                part.set_attn_implementation(implementation or register())
        with observed_caches:
            yield
    finally:
        for config, name in implementations:
            config._attn_implementation_internal = name


@contextmanager
def _observe() -> Iterator[None]:
    """Records the attention functions that transformers models themselves call. Nothing that they compute changes."""
    get_interface = ALL_ATTENTION_FUNCTIONS.get_interface

    def observing_interface(implementation: str, default: Callable) -> Callable:
        own: Callable = get_interface(implementation, default)
        recording = current_recording.get()
        if recording is None or not recording.observes or recording.busy:
            return own

        def attention(
            module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Any, **options: Any
        ) -> Any:
            with recording.nested():
                result = own(module, query, key, value, attention_mask, **options)
            mask = _mask(implementation, module, query, key, attention_mask, options)
            call = Call(module, query, key, value, mask, options)
            return recording.observe(call, result, "" if implementation in (None, "eager", "sdpa") else implementation)

        return attention

    with patch.object(ALL_ATTENTION_FUNCTIONS, "get_interface", observing_interface):
        yield


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
    """Returns the mask of an attention, also where it is an argument of sdpa alone."""
    causal = options.get("is_causal")
    causal = getattr(module, "is_causal", True) if causal is None else causal
    if implementation != "sdpa" or mask is not None or query.shape[2] == 1 or not causal:
        return mask
    lengths = {"batch_size": len(query), "q_length": query.shape[2], "kv_length": key.shape[2]}
    return lazy_mask(mask_function=causal_mask_function, dtype=query.dtype, device=query.device, **lengths)
