"""Zeros for padding, as torch's encoder returns them when it runs unobserved and computes with nested tensors."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from attnviz.tracing.recording import current_recording


@contextmanager
def zeros_for_padding(model: nn.Module) -> Iterator[None]:
    """Makes the encoders in a model give the zeros, in recordings, that they give elsewhere."""
    with ExitStack() as hooks:
        for encoder in model.modules():
            if isinstance(encoder, nn.TransformerEncoder) and len(encoder.layers):
                padding = _Padding(encoder)
                hooks.enter_context(encoder.register_forward_pre_hook(padding.enter, with_kwargs=True))
                hooks.enter_context(encoder.layers[-1].register_forward_hook(padding.leave))
        yield


class _Padding:
    """The padding of an encoder that runs."""

    def __init__(self, encoder: nn.TransformerEncoder) -> None:
        self.parameters = list(encoder.layers[0].parameters())
        self.mask: Tensor | None = None

    def enter(self, encoder: nn.TransformerEncoder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        arguments = dict(zip(("src", "mask", "src_key_padding_mask"), args, strict=False)) | kwargs
        states, mask, padding = (arguments.get(name) for name in ("src", "mask", "src_key_padding_mask"))
        self.mask = None
        if not isinstance(states, Tensor) or not isinstance(padding, Tensor):
            return
        nested = (
            current_recording.get()
            and torch.backends.mha.get_fastpath_enabled()
            and encoder.use_nested_tensor
            and not encoder.layers[0].training
            and states.ndim == 3
            and mask is None
            and not torch.is_autocast_enabled()
            and not (torch.is_grad_enabled() and any(one.requires_grad for one in (states, *self.parameters)))
        )
        if nested:
            hidden = padding if padding.dtype == torch.bool else padding == -torch.inf
            if not bool((hidden[:, :-1] & ~hidden[:, 1:]).any()):  # all padding is at the end
                self.mask = hidden

    def leave(self, layer: nn.Module, args: tuple[Any, ...], output: Tensor) -> Tensor | None:
        return None if self.mask is None else output.masked_fill(self.mask[..., None], 0)
