"""Interception of attention that a model computes with torch functions inside its modules."""

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import multi_head_attention_forward, scaled_dot_product_attention, softmax
from torch.overrides import TorchFunctionMode
from transformers.masking_utils import causal_mask_function

from attnviz.tracing.call import Call
from attnviz.tracing.lazy_mask import lazy_mask
from attnviz.tracing.memory_budget import NotCaptured
from attnviz.tracing.recording import Recording, current_recording

SOFTMAXES = (softmax, torch.softmax, Tensor.softmax)
ATTENTION = re.compile("att", re.IGNORECASE)
SDPA = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")


class TorchInterception(TorchFunctionMode):
    """Records softmax and scaled_dot_product_attention in attention modules while it is active.

    A softmax counts as attention if its shape is (sequences, heads, queries, keys) or (sequences · heads, queries,
    keys), with a known number of heads, and with the lengths of its module's inputs.
    """

    def __init__(self, recording: Recording, heads: frozenset[int]) -> None:
        super().__init__()
        self.recording, self.heads = recording, heads
        self.running: list[tuple[nn.Module, frozenset[int]]] = []

    @contextmanager
    def inside(self, model: nn.Module) -> Iterator[None]:
        """Activates the interception, and tracks which module of the model is running and the lengths of its inputs."""

        def enter(module: nn.Module, args: tuple, kwargs: dict) -> None:
            if current_recording.get() is self.recording:  # and not another thread's forward
                tensors = (value for value in (*args, *kwargs.values()) if isinstance(value, Tensor))
                states = (one for one in tensors if one.ndim == 3 and one.is_floating_point())
                self.running.append((module, frozenset(size for one in states for size in one.shape[:2])))

        def leave(module: nn.Module, args: tuple, result: Any) -> None:
            if current_recording.get() is self.recording and self.running and self.running[-1][0] is module:
                self.running.pop()  # where it was entered: another hook may have failed before

        modules = [module for module in model.modules() if not _is_layer_of_torch(module)]
        hooks = [module.register_forward_pre_hook(enter, with_kwargs=True) for module in modules]
        hooks += [module.register_forward_hook(leave, always_call=True) for module in modules]
        try:
            with self:
                yield
        finally:
            for hook in hooks:
                hook.remove()

    def __torch_function__(self, function: Callable, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.recording.busy or not self.running:
            return function(*args, **kwargs)
        if function is multi_head_attention_forward:
            return self._with_head_weights(inspect.signature(function).bind(*args, **kwargs).arguments)
        result = function(*args, **kwargs)
        if function is scaled_dot_product_attention:
            arguments = dict(zip(SDPA, args, strict=False)) | kwargs
            return self._record_sdpa(arguments["query"], arguments["key"], arguments["value"], result, arguments)
        if function in SOFTMAXES and result.ndim > 2:
            axis = kwargs.get("dim", args[1] if len(args) > 1 else -1)
            if axis in (-1, result.ndim - 1):
                self._record_softmax(result)
        return result

    def _with_head_weights(self, arguments: dict[str, Any]) -> tuple[Tensor, Tensor | None]:
        """Calls torch's multi-head attention, and records the weights of each head."""
        heads: Any = {"need_weights": True, "average_attn_weights": False}
        output, weights = multi_head_attention_forward(**arguments | heads)
        if weights is not None:
            self.recording.capture_weights(self._running_module()[0], weights if weights.ndim == 4 else weights[None])
            weights = weights.mean(-3) if arguments.get("average_attn_weights", True) else weights
        return output, weights if arguments.get("need_weights", True) else None

    def _record_sdpa(
        self, query: Tensor, key: Tensor, value: Tensor, result: Tensor, arguments: dict[str, Any]
    ) -> Tensor:
        """Records the inputs of scaled_dot_product_attention, and returns its result."""
        module, mask = self._running_module()[0], arguments.get("attn_mask")
        with self.recording.capturing(module):
            if query.ndim != 4:
                raise NotCaptured(
                    f"its queries have the shape {tuple(query.shape)}, in which heads cannot be told apart"
                )
            if arguments.get("is_causal"):
                lengths = {"batch_size": len(query), "q_length": query.shape[2], "kv_length": key.shape[2]}
                mask = lazy_mask(mask_function=causal_mask_function, dtype=query.dtype, **lengths)
            call = Call(module, query, key, value, mask, {"scaling": arguments.get("scale")})
            result = self.recording.capture_sdpa(call, result.transpose(1, 2)).transpose(1, 2)
        return result

    def _record_softmax(self, weights: Tensor) -> None:
        module, lengths = self._running_module()
        if not ATTENTION.search(f"{self.recording.names.modules[module]} {type(module).__name__}"):
            return
        heads = _head_counts_of(module) or self.heads
        with self.recording.capturing(module):
            shape = tuple(weights.shape)
            if weights.ndim == 3:
                matching = [count for count in sorted(heads) if len(weights) % (count * self.recording.examples) == 0]
                weights = weights.unflatten(0, (-1, matching[0])) if len(matching) == 1 else weights[None]
            if weights.ndim != 4 or weights.shape[1] not in heads or not lengths.issuperset(weights.shape[2:]):
                raise NotCaptured(f"its weights have the shape {shape}, not one number for each head, query and key")
            self.recording.capture_weights(module, weights)

    def _running_module(self) -> tuple[nn.Module, frozenset[int]]:
        """Returns the running module, ignoring layers of torch such as nn.Softmax, and the lengths of its inputs."""
        return self.running[-1]


def _is_layer_of_torch(module: nn.Module) -> bool:
    """Returns whether a module is a layer of torch without parts, such as nn.Linear: none has attention inside."""
    return type(module).__module__.startswith("torch.nn.modules.") and next(module.children(), None) is None


HEADS = ("num_attention_heads", "num_heads", "n_heads", "n_head", "encoder_attention_heads", "decoder_attention_heads")


def _head_counts_of(part: Any) -> frozenset[int]:
    """Returns the numbers of heads of a module or a config."""
    values = [getattr(part, name, None) for name in HEADS]
    listed = [value if isinstance(value, list | tuple) else [value] for value in values]
    return frozenset(one for values in listed for one in values if isinstance(one, int))


def head_counts(configs: Iterable[Any]) -> frozenset[int]:
    return frozenset().union(*map(_head_counts_of, configs))
