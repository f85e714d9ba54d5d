"""Numbers of a model that are NaN, infinite or too large, and the module that computes them first."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from attnviz.inputs import LARGEST, is_bounded
from attnviz.tracing.memory_budget import NotCaptured


class UnboundedNumbers(NotCaptured):
    """A layer computes with numbers that are not bounded."""


def kind_of_unbounded(tensors: tuple[Tensor, ...]) -> str:
    """Returns what numbers of tensors are if they are out of bounds, or an empty text."""
    if all(map(is_bounded, tensors)):
        return ""
    if any(bool(one.isnan().any()) for one in tensors):
        return "NaN"
    return "infinity" if any(bool(one.isinf().any()) for one in tensors) else f"numbers beyond {LARGEST:.0e}"


def first_unbounded_module(model: nn.Module, forward: Callable[[], object]) -> nn.Module | None:
    """Runs a forward pass of a model until a module returns NaN or infinity, and returns that; None if none does."""

    def check(module: nn.Module, args: tuple[Any, ...], result: Any) -> None:
        # −∞ is allowed, since masks consist of it.
        tensors = (one for one in tree_leaves(result) if isinstance(one, Tensor) and one.is_floating_point())
        if any(bool((one.isnan() | one.isposinf()).any()) for one in tensors):
            raise _UnboundedOutput(module)

    with ExitStack() as hooks:
        for module in model.modules():
            if not isinstance(module, torch.jit.ScriptModule):
                hooks.enter_context(module.register_forward_hook(check))
        try:
            forward()
        except _UnboundedOutput as output:
            return output.module
    return None


class _UnboundedOutput(Exception):
    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module
