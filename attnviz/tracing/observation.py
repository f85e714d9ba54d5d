"""The capture of every forward pass of a model, in code that runs as it would anyway."""

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from attnviz.base.settings import MB
from attnviz.base.token_texts import TokenTexts, token_names
from attnviz.tracing.encoded_texts import EncodedTexts, begin_with_encoder
from attnviz.tracing.encoder_padding import zeros_for_padding
from attnviz.tracing.forward_arguments import ForwardArguments
from attnviz.tracing.head_axes import head_counts
from attnviz.tracing.layer_naming import AxisTokens, LayerNames, named_modules
from attnviz.tracing.memory_budget import MemoryBudget
from attnviz.tracing.optional_transformers import is_encoder_decoder, transformers_models
from attnviz.tracing.recording import Recording, check_example, current_recording
from attnviz.tracing.torch_interception import recorded, tracked_modules, uncompiled
from attnviz.tracing.traces import Traces


@contextmanager
def capturing(
    model: nn.Module, *, example: int | None = None, tokens: TokenTexts = (), max_bytes: int = 512 * MB
) -> Iterator[Traces]:
    """Captures every forward pass of `model` inside the `with` block, and yields their traces.

    The code in the block runs as it would anyway: the model stays in training mode if it is, gradients flow, and
    transformers models keep their attention implementation. A layer that applies dropout to its weights is shown before
    that; its inputs are those that ran. Nested tensors, torch's fast path for encoders and compiled code are off
    meanwhile, which may change the last digits.

    `tokens` are the labels of the axes, or what makes them of token ids: the model's tokenizer, or a function of a list
    of them. If a forward pass continues a cache, as in `generate()`, its keys are the tokens that were put into this
    cache inside a block. Those that were computed elsewhere, or have changed since, have their places in the cache as
    names, and `missing` says so. In `generate()` of an encoder–decoder model, the trace of the decoder's first pass
    begins with the layers of the encoder.

    `example` is which one of a batch is shown; if it is not given, the first of several is, and `missing` says so. See
    `capture` for what is in a trace.

    The traces take at most `max_bytes`, by default 512 MB. Then the oldest are dropped, and `traces.dropped` is how
    many.

    Example:
        >>> model = nn.TransformerEncoderLayer(8, nhead=2, batch_first=True)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> with capturing(model) as traces:
        ...     for _ in range(3):
        ...         loss = model(torch.randn(2, 5, 8)).square().mean()
        ...         loss.backward()
        ...         optimizer.step()
        >>> len(traces), traces.dropped, traces[-1][0].fidelity.value
        (3, 0, 'verified')
    """
    if isinstance(model, torch.jit.ScriptModule):
        raise ValueError(
            "The forward passes of a module of torch.jit cannot be watched. Give the module that it was made of."
        )
    observation = _Observation(model, Traces(max_bytes), example, tokens)
    transformers = transformers_models()
    encoder = transformers.encoder_of(model) if transformers else None
    with ExitStack() as stack:
        stack.enter_context(uncompiled)
        if transformers:
            stack.enter_context(transformers.observed_attention)
            stack.enter_context(transformers.observed_caches)
        watched = [one for one in (model, encoder) if one is not None]
        for one in watched:
            stack.enter_context(one.register_forward_pre_hook(observation.enter_forward, with_kwargs=True))
        stack.enter_context(tracked_modules(model))
        stack.enter_context(zeros_for_padding(model))
        for one in watched:
            stack.enter_context(one.register_forward_hook(observation.leave_forward, always_call=True))
        stack.callback(observation.close)
        yield observation.traces


@dataclass
class _Running:
    """A forward pass that runs."""

    recording: Recording
    arguments: ForwardArguments
    context: AbstractContextManager[None]
    error: BaseException | None  # that was handled when it began
    depth: int = 0  # of forward passes of the same model inside it


class _Observation:
    """The hooks before and after each forward pass of a model."""

    def __init__(self, model: nn.Module, traces: Traces, example: int | None, tokens: TokenTexts) -> None:
        self.model, self.traces, self.tokens = model, traces, tokens
        self.example, self.is_chosen = example or 0, example is not None
        self.encoded = EncodedTexts()
        self.modules, self.heads = named_modules(model), head_counts(model)
        self.is_encoder_decoder = is_encoder_decoder(model)
        self.running: list[_Running] = []

    def enter_forward(self, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if current := self._current():
            current.depth += 1
            return
        if current_recording.get():  # it is captured by itself, or as a part of another model
            return
        with torch.no_grad():
            arguments = ForwardArguments.from_call(model, args, kwargs)
            counts, example = arguments.example_counts(), self.example
            if model is not self.model:  # an encoder by itself, of which each text may be decoded several times
                example = min(example, max(counts, default=1) - 1)
            if counts:
                check_example(example, max(counts))
            names = LayerNames.from_arguments(
                self.modules, self.is_encoder_decoder, arguments, example, tokens=self.tokens
            )
            states = arguments.encoder_states()
            text = None if states is None else self.encoded.find(states, example)
            if text is not None:
                names = replace(names, source=AxisTokens(token_names(self.tokens, text.ids), ids=text.ids))
            recording = Recording(names, counts, example, MemoryBudget(), observes=True, is_chosen=self.is_chosen)
            if states is not None:
                begin_with_encoder(recording, text)
        self.running.append(_Running(recording, arguments, recorded(recording, self.heads), sys.exception()))
        self.running[-1].context.__enter__()

    def leave_forward(self, model: nn.Module, args: tuple[Any, ...], result: Any) -> None:
        current = self._current()
        if current is None:
            return
        if current.depth:
            current.depth -= 1
            return
        self._leave(current)
        if sys.exception() is not current.error:  # the forward pass has failed
            return
        if model is self.model:
            self.traces.append(current.recording.trace())
            return
        self._add_last_encoder()
        with torch.no_grad():
            self.encoded.add(current.recording, current.arguments, result[0])

    def _add_last_encoder(self) -> None:
        """Adds the trace of an encoder whose text was not decoded."""
        if recording := self.encoded.take_last():
            self.traces.append(recording.trace())

    def close(self) -> None:
        """Leaves a forward pass that was interrupted in a way that calls no hook."""
        if current := self._current():
            self._leave(current)
        self._add_last_encoder()

    def _current(self) -> _Running | None:
        recording = current_recording.get()
        return next((one for one in self.running if one.recording is recording), None)

    def _leave(self, current: _Running) -> None:
        current.context.__exit__(None, None, None)
        self.running.remove(current)
