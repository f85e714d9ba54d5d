"""The attention and mask functions that transformers calls during a capture."""

from functools import cache
from typing import Any

from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface

from attnviz.tracing.call import Call, as_added
from attnviz.tracing.lazy_mask import lazy_mask
from attnviz.tracing.recording import current_recording

NAME = "attnviz"


def attention(
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
    AttentionInterface.register(NAME, attention)
    AttentionMaskInterface.register(NAME, lazy_mask)
    return NAME
