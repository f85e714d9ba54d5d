"""The residual stream of a model between its layers, and the part of the model after its last layer."""

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn

from attnviz.base.interruption import end_if_unwanted
from attnviz.base.language import value_error
from attnviz.tracing.changed_run import run_changed
from attnviz.tracing.forward_arguments import ForwardArguments
from attnviz.tracing.layer_naming import named_modules
from attnviz.tracing.single_capture import evaluating

NUMBERED = re.compile(r"(?:(.*)\.)?\d+")  # the path of a member of a list of modules


@dataclass(eq=False)
class _Call:
    """A call of a layer, with what came in and what it returned."""

    module: nn.Module
    group: str  # the path of the list that the layer is in
    states: list[Tensor]  # among its arguments, those that the stream may be
    result: Any = None
    has_attention: bool = False
    ends_with_norm: bool = False


@dataclass(frozen=True, eq=False)
class ResidualStream:
    """The residual stream of one forward pass: before the first layer, and after each layer.

    The states have the shape that the model gives them, (examples, positions, width) in most. The layers are the
    members of the last list of modules in which attention has run, such as those of a decoder after an encoder.
    """

    model: nn.Module
    arguments: ForwardArguments
    states: tuple[Tensor, ...]
    output: Any  # what the model returns
    is_normalized: bool  # each layer ends with a norm, so that the stream is normalized already
    _calls: tuple[_Call, ...] = field(repr=False)  # of the layers, and of those of other stacks, as they ran

    @torch.no_grad()
    def output_of(self, state: Tensor) -> Any:
        """Returns what the model returns if the stream after its last layer is `state`, or of several such examples:
        all that comes after the layers runs as the model has it, such as a final norm, a head and a cap. The layers do
        not run."""
        end_if_unwanted()
        results: dict[nn.Module, Iterator[Any]] = {}
        for call in self._calls:
            result = _with_state(call.result, state.clone()) if call is self._calls[-1] else call.result
            results[call.module] = chain(results.get(call.module, ()), [result])
        with evaluating(self.model), _without_running(results):
            return self.model(*self.arguments.args, **self.arguments.kwargs)


def residual_stream(model: nn.Module, arguments: ForwardArguments) -> ResidualStream:
    """Returns the residual stream of a forward pass. Raises ValueError if no attention is seen in it, or if the layers
    with attention are in no list of modules, or do not give the stream on from one to the next."""
    with evaluating(model), _recorded_calls(model) as (calls, running):

        def note(*_: int) -> None:
            if running:
                running[0].has_attention = True

        output, _heads = run_changed(model, arguments, note)
    groups = {call.group for call in calls if call.has_attention}
    calls = [call for call in calls if call.group in groups]
    if not calls:
        raise value_error(
            "The layers of {name} are not known: its attention is not in a list of modules.", name=type(model).__name__
        )
    layers = [call for call in calls if call.group == calls[-1].group]
    return ResidualStream(
        model, arguments, _states(layers), output, all(call.ends_with_norm for call in layers), tuple(calls)
    )


def _states(layers: list[_Call]) -> tuple[Tensor, ...]:
    """Returns the stream before the first layer and after each. Raises ValueError if a layer returns something else."""
    states = [_state(call.result) for call in layers]
    shape = states[-1].shape if isinstance(states[-1], Tensor) else None
    first = next((state for state in layers[0].states if state.shape == shape), None)
    if first is None or any(not isinstance(state, Tensor) or state.shape != shape for state in states):
        raise value_error(
            "The stream between the layers {name} is not known: a layer does not return it in the shape in which it "
            "gets it.",
            name=layers[0].group,
        )
    return first, *states


@contextmanager
def _recorded_calls(model: nn.Module) -> Iterator[tuple[list[_Call], list[_Call]]]:
    """Records the calls of modules that are in lists of modules, but not those inside of another such call, and those
    that are running."""
    calls: list[_Call] = []
    running: list[_Call] = []
    latest_norm: list[Any] = [None]

    def enter(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        # Copies: a layer may change what it gets.
        states = [one.clone() for one in (*args, *kwargs.values()) if not running and _may_be_state(one)]
        running.append(_Call(module, groups[module], states))

    def leave(module: nn.Module, args: tuple[Any, ...], result: Any) -> None:
        call = running.pop()
        if running:
            return
        state = _state(result)
        call.ends_with_norm = state is latest_norm[0]
        call.result = _with_state(result, state.clone()) if isinstance(state, Tensor) else result
        calls.append(call)

    def keep_norm(module: nn.Module, args: tuple[Any, ...], result: Any) -> None:
        latest_norm[0] = result

    groups = {
        module: match[1] or "" for module, path in named_modules(model).items() if (match := NUMBERED.fullmatch(path))
    }
    with ExitStack() as hooks:
        for module in model.modules():
            if "norm" in type(module).__name__.lower():
                hooks.enter_context(module.register_forward_hook(keep_norm))
        for module in groups:
            hooks.enter_context(module.register_forward_pre_hook(enter, with_kwargs=True))
            hooks.enter_context(module.register_forward_hook(leave))
        yield calls, running


def _state(result: Any) -> Any:
    """Returns the stream among what a layer returns."""
    return result[0] if isinstance(result, tuple) and result else result


def _with_state(result: Any, state: Tensor) -> Any:
    """Returns what a layer returns with another stream."""
    return (state, *result[1:]) if isinstance(result, tuple) else state


def _may_be_state(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point() and value.ndim == 3


@contextmanager
def _without_running(results: dict[nn.Module, Iterator[Any]]) -> Iterator[None]:
    """Lets modules return what is given for each of their calls, in place of running."""
    with ExitStack() as patches:
        for module, each in results.items():
            patches.enter_context(patch.object(module, "forward", lambda *_args, each=each, **_kwargs: next(each)))
        yield
