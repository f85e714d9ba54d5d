"""Interception of attention that a model computes with torch functions inside its modules."""

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn.attention import flex_attention
from torch.nn.functional import multi_head_attention_forward, scaled_dot_product_attention, softmax
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from attnviz.masks import Causal
from attnviz.tracing.call import Call
from attnviz.tracing.flex_attention import flex_call, flex_weights, is_flex_attention
from attnviz.tracing.head_axes import head_counts_of, with_head_axes
from attnviz.tracing.memory_budget import NotCaptured
from attnviz.tracing.recording import Recording, current_recording
from attnviz.tracing.shared_context import SharedContext
from attnviz.tracing.weighted_sums import RunningModule

SOFTMAXES = (softmax, torch.softmax, Tensor.softmax)
ATTENTION = re.compile("att", re.IGNORECASE)
MULTI_HEAD = inspect.signature(multi_head_attention_forward)
UNCOMPILED_FLEX = "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG"  # without it, FlexAttention loads torch._dynamo
SDPA = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")


class TorchInterception(TorchFunctionMode):
    """Records attention that functions of torch compute in modules, while it is active.

    A softmax counts as attention if its shape is (sequences, heads, queries, keys) or (sequences · heads, queries,
    keys), with a known number of heads, and with the lengths of its module's inputs.
    """

    def __init__(self, recording: Recording, heads: frozenset[int]) -> None:
        super().__init__()
        self.recording, self.heads = recording, heads
        scripted = any(isinstance(module, torch.jit.ScriptModule) for module in recording.names.modules)
        # Before this mode, so that they see what is done to record attention, too.
        self._others: tuple[AbstractContextManager, ...] = (
            recording.patches if recording.patches.is_needed else nullcontext(),
            ScriptedCode(recording) if scripted else nullcontext(),
        )

    def __enter__(self) -> Self:
        for other in self._others:
            other.__enter__()
        entered: Self = super().__enter__()
        return entered

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        for other in reversed(self._others):
            other.__exit__(*error)

    def __torch_function__(self, function: Callable, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.recording.busy or not self.recording.running:
            return function(*args, **kwargs)
        if function is multi_head_attention_forward:
            return self.recording.multi_head_attention(self.recording.running[-1][0], _arguments(args, kwargs))
        result = function(*args, **kwargs)
        if function is scaled_dot_product_attention:
            return self._record_sdpa(dict(zip(SDPA, args, strict=False)) | kwargs, result)
        if is_flex_attention(function):
            return self._record_flex_attention(function, args, result)
        is_recorded = False
        if function in SOFTMAXES and result.ndim > 2:
            axis = kwargs.get("dim", args[1] if len(args) > 1 else -1)
            if axis in (-1, result.ndim - 1):
                result, is_recorded = self._record_softmax(result)
        self.recording.follow(function, args, kwargs, result, is_recorded)
        return result

    def _record_sdpa(self, arguments: dict[str, Any], result: Tensor) -> Tensor:
        """Records the inputs of scaled_dot_product_attention, and returns its result or that of an intervention."""
        module, shapes, _ = self.recording.running[-1]
        changed = None
        with self.recording.recording_layer(module):
            if arguments.get("dropout_p"):
                output = scaled_dot_product_attention(**arguments | {"dropout_p": 0.0})
            else:
                output = result
            heads, examples = head_counts_of(module) or self.heads, self.recording.example_counts
            with self.recording.patches.resumed():
                query, key, value, output, mask = with_head_axes(arguments, output, heads, examples, shapes)
            rule = Causal() if arguments.get("is_causal") else None
            call = Call(module, query, key, value, mask, {"scaling": arguments.get("scale")}, rule)
            changed = self.recording.capture_computed(call, output.transpose(1, 2))
        return result if changed is None else changed.transpose(1, 2).reshape(result.shape)

    def _record_flex_attention(self, function: Callable, args: tuple[Any, ...], result: Any) -> Any:
        """Records the inputs of FlexAttention, and returns its results or those of an intervention."""
        module = self.recording.running[-1][0]
        changed = self.recording.capture_flex_attention(
            module,
            partial(flex_call, module, args),
            result[0].transpose(1, 2),
            lambda: flex_weights(function, args, self.recording.budget),
        )
        return result if changed is None else (changed.transpose(1, 2), *result[1:])

    def _record_softmax(self, result: Tensor) -> tuple[Tensor, bool]:
        """Records the weights of a module of attention; returns them or those of an intervention, and whether it is
        one."""
        module, shapes, _ = self.recording.running[-1]
        states = [shape for shape in shapes if len(shape) == 3]
        lengths = {size for shape in states for size in shape[:2]}
        lengths |= {size + (self.recording.names.past or 0) for size in lengths}  # keys in a cache
        self.recording.softmaxes.setdefault(module, result.shape)
        if not ATTENTION.search(f"{self.recording.names.modules[module]} {type(module).__name__}"):
            return result, False
        heads = head_counts_of(module) or self.heads
        changed = None
        with self.recording.recording_layer(module):
            weights, shape = result, tuple(result.shape)
            if weights.ndim == 3:
                examples = next(iter(self.recording.example_counts), 1)
                matching = [count for count in sorted(heads) if len(weights) % (count * examples) == 0]
                with self.recording.patches.resumed():
                    weights = weights.unflatten(0, (-1, matching[0])) if len(matching) == 1 else weights[None]
            if weights.ndim != 4 or weights.shape[1] not in heads or not lengths.issuperset(weights.shape[2:]):
                raise NotCaptured(f"its weights have the shape {shape}, not one number for each head, query and key")
            changed = self.recording.capture_weights(module, weights, result.shape)
        return (result if changed is None else changed.reshape(result.shape)), True


@contextmanager
def recorded(recording: Recording, heads: frozenset[int]) -> Iterator[None]:
    """Records the forward pass of a model within the context."""
    token = current_recording.set(recording)
    try:
        with TorchInterception(recording, heads):
            yield
    finally:
        current_recording.reset(token)


class ScriptedCode(TorchDispatchMode):
    """Follows the calls in modules of torch.jit, which function modes do not see, while it is active."""

    def __init__(self, recording: Recording) -> None:
        super().__init__()
        self.recording = recording

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = operator(*args, **(kwargs or {}))
        running = self.recording.running
        if running and not self.recording.busy and isinstance(running[-1][0], torch.jit.ScriptModule):
            self.recording.follow(operator, args, kwargs or {}, result)
        return result


@contextmanager
def tracked_modules(model: nn.Module) -> Iterator[None]:
    """Tracks which module of a model is running in a recording, and the shapes of its inputs."""

    def enter(module: nn.Module, args: tuple, kwargs: dict) -> None:
        recording = current_recording.get()
        if recording and module in recording.names.modules:  # and not another thread's forward, or another model's
            tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)]
            shapes = tuple(one.shape for one in tensors if one.is_floating_point())
            counts = {shape[-2] for shape in shapes if len(shape) in (2, 3)}
            if not recording.running:
                counts |= {one.shape[-1] for one in tensors if one.ndim and not one.is_floating_point()}  # token ids
            recording.running.append(RunningModule(module, shapes, frozenset(counts)))

    def leave(module: nn.Module, args: tuple, result: Any) -> None:
        recording = current_recording.get()
        if recording and recording.running and recording.running[-1][0] is module:
            recording.running.pop()  # where it was entered: another hook may have failed before

    def enter_scripted(module: nn.Module, args: tuple) -> None:
        if isinstance(module, torch.jit.ScriptModule):
            enter(module, args, {})

    modules = [module for module in model.modules() if not _is_layer_of_torch(module)]
    hookable = [module for module in modules if not isinstance(module, torch.jit.ScriptModule)]
    with ExitStack() as hooks:
        for module in hookable:
            hooks.enter_context(module.register_forward_pre_hook(enter, with_kwargs=True))
            hooks.enter_context(module.register_forward_hook(leave, always_call=True))
        if len(hookable) < len(modules):  # these have no hooks of their own
            hooks.enter_context(register_module_forward_pre_hook(enter_scripted))
            hooks.enter_context(register_module_forward_hook(leave, always_call=True))
        yield


def _arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Returns all arguments of torch's multi-head attention by name."""
    bound = MULTI_HEAD.bind(*args, **kwargs)
    bound.apply_defaults()
    return dict(bound.arguments)


def _is_layer_of_torch(module: nn.Module) -> bool:
    """Returns whether a module is a layer of torch without parts, such as nn.Linear: none has attention inside."""
    return type(module).__module__.startswith("torch.nn.modules.") and next(module.children(), None) is None


@contextmanager
def _uncompiled() -> Iterator[None]:
    before = getattr(flex_attention, UNCOMPILED_FLEX, False)  # where torch is as new
    setattr(flex_attention, UNCOMPILED_FLEX, True)
    try:
        with torch.compiler.set_stance("force_eager") if "torch._dynamo" in sys.modules else nullcontext():
            yield
    finally:
        setattr(flex_attention, UNCOMPILED_FLEX, before)


# Compiled modules and FlexAttention, which compiles itself, run as they are written: what is compiled cannot be seen.
uncompiled = SharedContext(_uncompiled)
