"""The capture of every forward pass of a model, in code that runs as it would anyway."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import Token
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from attnviz.settings import MB
from attnviz.tracing.encoder_padding import zeros_for_padding
from attnviz.tracing.forward_arguments import ForwardArguments
from attnviz.tracing.layer_naming import AxisTokens, LayerNames, named_modules
from attnviz.tracing.memory_budget import MemoryBudget
from attnviz.tracing.optional_transformers import transformers_models
from attnviz.tracing.recording import Recording, check_example, current_recording
from attnviz.tracing.torch_interception import TorchInterception, head_counts, tracked_modules, uncompiled
from attnviz.tracing.traces import Traces

TokenTexts = Sequence[str] | Callable[[list[int]], Sequence[str]]


@contextmanager
def capturing(
    model: nn.Module, *, example: int = 0, tokens: TokenTexts = (), max_bytes: int = 512 * MB
) -> Iterator[Traces]:
    """Captures every forward pass of `model` inside the `with` block, and yields their traces.

    The code in the block runs as it would anyway: the model stays in training mode if it is, gradients flow, and
    transformers models keep their attention implementation. A layer that applies dropout to its weights is shown before
    that; its inputs are those that ran. Nested tensors, torch's fast path for encoders and compiled code are off
    meanwhile, which may change the last digits.

    `tokens` are the labels of the axes, or a function that makes them of a list of token ids, such as
    `tokenizer.convert_ids_to_tokens`. If a forward pass continues a cache, as in `generate()`, its keys are the tokens
    of the forward passes before it, too. See `capture` for `example` and for what is in a trace.

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
    observation = _Observation(model, Traces(max_bytes), example, tokens)
    transformers = transformers_models()
    with ExitStack() as stack:
        stack.enter_context(uncompiled)
        if transformers:
            stack.enter_context(transformers.observed_attention)
        begin = model.register_forward_pre_hook(observation.enter_forward, with_kwargs=True)
        stack.callback(begin.remove)
        stack.enter_context(tracked_modules(model))
        stack.enter_context(zeros_for_padding(model))
        end = model.register_forward_hook(observation.leave_forward, always_call=True)
        stack.callback(end.remove)
        stack.callback(observation.close)
        yield observation.traces


@dataclass
class _Running:
    """A forward pass that runs."""

    recording: Recording
    interception: TorchInterception
    token: Token
    error: BaseException | None  # that was handled when it began
    depth: int = 0  # of forward passes of the same model inside it


class _Observation:
    """The hooks before and after each forward pass of a model."""

    def __init__(self, model: nn.Module, traces: Traces, example: int, tokens: TokenTexts) -> None:
        self.traces, self.example, self.tokens = traces, example, tokens
        transformers = transformers_models()
        self.modules = named_modules(model)
        self.heads = head_counts(transformers.configs_of(model)) if transformers else frozenset()
        self.is_encoder_decoder = any(isinstance(module, nn.Transformer) for module in self.modules) or bool(
            transformers and transformers.is_encoder_decoder(model)
        )
        self.ids: Tensor | None = None  # of all tokens of the text that the last forward pass continued
        self.running: list[_Running] = []

    def enter_forward(self, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if current := self._current():
            current.depth += 1
            return
        if current_recording.get():  # it is captured by itself, or as a part of another model
            return
        with torch.no_grad():
            arguments = ForwardArguments.from_call(model, args, kwargs)
            if counts := arguments.example_counts():
                check_example(self.example, max(counts))
            recording = Recording(self._names(arguments), counts, self.example, MemoryBudget(), observes=True)
        interception, token = TorchInterception(recording, self.heads), current_recording.set(recording)
        self.running.append(_Running(recording, interception, token, sys.exception()))
        interception.__enter__()

    def leave_forward(self, model: nn.Module, args: tuple[Any, ...], result: Any) -> None:
        current = self._current()
        if current is None:
            return
        if current.depth:
            current.depth -= 1
            return
        self._leave(current)
        if sys.exception() is current.error:  # else the forward pass has failed
            self.traces.append(current.recording.trace())

    def close(self) -> None:
        """Leaves a forward pass that was interrupted in a way that no hook is told of."""
        if current := self._current():
            self._leave(current)

    def _current(self) -> _Running | None:
        recording = current_recording.get()
        return next((one for one in self.running if one.recording is recording), None)

    def _leave(self, current: _Running) -> None:
        current.interception.__exit__(None, None, None)
        current_recording.reset(current.token)
        self.running.remove(current)

    def _names(self, arguments: ForwardArguments) -> LayerNames:
        """Returns the names for a forward pass, with the tokens of those that it continues."""
        transformers = transformers_models()
        past = transformers.past_length(arguments.by_name) if transformers else None
        name = "decoder_input_ids" if self.is_encoder_decoder else "input_ids"
        now = arguments.by_name.get(name)
        now = now.detach().cpu() if isinstance(now, Tensor) and now.ndim == 2 else None
        known = self.ids[:, :past] if past and self.ids is not None else None
        order = transformers.beam_order(arguments.by_name) if transformers else None
        if known is not None and order is not None:
            known = known[order]
        if known is not None and now is not None and len(known) == len(now):
            self.ids = torch.cat([known, now], dim=1)
        else:
            self.ids = None if past else now
        cached = AxisTokens() if self.ids is None else self._axis(tuple(self.ids[self.example].tolist()))
        if self.is_encoder_decoder:
            source = self._axis(arguments.ids("input_ids", self.example))
            target = self._axis(arguments.ids("decoder_input_ids", self.example), is_source=False)
        else:
            source = target = self._axis(arguments.ids("input_ids", self.example))
        return LayerNames(self.modules, self.is_encoder_decoder, source, target, past, cached)

    def _axis(self, ids: tuple[int, ...], is_source: bool = True) -> AxisTokens:
        if callable(self.tokens):
            return AxisTokens(tuple(map(str, self.tokens(list(ids)))) if ids else (), ids=ids)
        fits = is_source and len(self.tokens) == (len(ids) or len(self.tokens))
        return AxisTokens(tuple(self.tokens) if fits else (), ids=ids)
