"""The constants that a model adds to what is written: biases of maps and norms, and parameters that are summands.

In a run in which nothing is written, each function of torch whose result is affine in its operands adds what it
returns for operands of zero. The constants of a run and their gradients add up to a number that is made of them.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

from attnviz.tracing.linearized_run import NONLINEAR, LinearizedRun, function_name


class AddedConstant(NamedTuple):
    """What one call of a function has added to its result."""

    path: str  # of the module that has the parameter, or that runs
    number: Tensor
    result: GradientEdge


class AddedConstants(TorchFunctionMode):
    """Finds what each function adds to its operands, while a run without writers is under way."""

    def __init__(self, run: LinearizedRun) -> None:
        super().__init__()
        self.run = run
        self.constants: list[AddedConstant] = []

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.run.busy or not self.run.running:
            return function(*args, **kwargs)
        tensors = [one for one in tree_leaves((args, kwargs)) if isinstance(one, Tensor)]
        operands = [one for one in tensors if one.requires_grad]
        count = self.run.writer_count
        returned = function(*args, **kwargs)
        writes = self.run.writer_count > count
        result = returned[0] if writes and isinstance(returned, tuple) else returned  # of multi-head attention
        if not operands or not isinstance(result, Tensor) or not result.requires_grad:
            return returned
        if writes:  # zeros
            number = result.detach()
        elif function_name(function) in NONLINEAR or (result is tensors[0] and result is not operands[0]):
            return returned  # held as a factor; or a constant that has been changed in its place
        else:
            number = self._of_zeros(function, args, kwargs)
        if number.any():
            module = self.run.owner((args, kwargs))
            path = self.run.names.modules[module] or type(module).__name__
            self.constants.append(AddedConstant(path, number, get_gradient_edge(result)))
        return returned

    @torch.no_grad()
    def _of_zeros(self, function: Any, args: Any, kwargs: dict[str, Any]) -> Tensor:
        def zeros(value: Any) -> Any:
            return torch.zeros_like(value) if isinstance(value, Tensor) and value.requires_grad else value

        with self.run.nested():
            args, kwargs = tree_map(zeros, (args, kwargs))
            return function(*args, **kwargs).nan_to_num(0, 0, 0)  # infinite where a mask forbids
