"""A model in half precision that is computed in float32, with no copy of it: a function that reads a weight gets it
converted, and the conversion ends with the function.

Conversion is exact, so that all numbers are those of a model whose weights are stored in float32. The graph of
gradients holds weights as they are stored, too, and a backward pass converts them again.
"""

import copy
from threading import local
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from attnviz.tracing.forward_arguments import check_model

HALVES = (torch.float16, torch.bfloat16)
ATEN = torch.ops.aten
# Views of a weight before and after conversion have the same numbers, and so have some of its rows.
VIEWS = {
    *(ATEN.detach, ATEN.alias, ATEN.t, ATEN.transpose, ATEN.permute, ATEN.expand, ATEN.unsqueeze, ATEN.squeeze),
    *(ATEN.select, ATEN.slice, ATEN.narrow, ATEN.split, ATEN.split_with_sizes, ATEN.chunk, ATEN.unbind),
}
ROWS = {ATEN.embedding, ATEN.index, ATEN.index_select}
# None of these returns a view of a weight.
PRODUCTS = {ATEN.linear, ATEN.matmul, ATEN.mm, ATEN.addmm, ATEN.bmm, ATEN.baddbmm, ATEN._grouped_mm}


class Workspace(local):
    """Memory in which a thread converts one weight at a time: new memory for each would take several times as long, and
    the C library would keep far more than is in use."""

    def __init__(self) -> None:
        self.memory = torch.empty(0, dtype=torch.float32, device="cpu")

    def converted(self, weight: Tensor) -> Tensor:
        """Returns a matrix, or several, in float32 until the next one is converted."""
        in_rows = weight if weight.is_contiguous() else weight.mT
        if weight.device.type != "cpu" or not in_rows.is_contiguous():
            return weight.float()
        if weight.numel() > len(self.memory):
            del self.memory  # before there is more
            self.memory = torch.empty(weight.numel(), dtype=torch.float32, device="cpu")
        numbers = self.memory[: weight.numel()].view(in_rows.shape).copy_(in_rows)
        return numbers if in_rows is weight else numbers.mT


class Float32Weight(Tensor):
    """A weight that is stored in half precision, and that functions of torch read in float32. Raises ValueError if one
    changes it."""

    stored: Tensor
    workspace: Workspace
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @staticmethod
    def __new__(cls, stored: Tensor, workspace: Workspace) -> "Float32Weight":
        with torch.inference_mode(False):  # as the view of a tensor that was made elsewhere
            made: Float32Weight = Tensor._make_wrapper_subclass(
                cls, stored.shape, strides=stored.stride(), dtype=torch.float32, device=stored.device
            )
        made.stored, made.workspace = stored, workspace
        return made

    def __repr__(self) -> str:  # type: ignore[override]
        return f"Float32Weight({self.stored!r})"

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        first, kwargs, name = args[0], kwargs or {}, function.overloadpacket
        if torch.is_inference_mode_enabled() and (result := function.decompose(*args, **kwargs)) is not NotImplemented:
            return result
        if name in VIEWS or function is ATEN.view.default:
            views = function(first.stored, *args[1:], **kwargs)
            return tree_map_only(Tensor, lambda view: cls(view, first.workspace), views)
        if name in ROWS:
            return function(first.stored, *args[1:], **kwargs).float()
        if function._schema.is_mutable and isinstance(first, cls):
            raise ValueError("This model changes its own weights while it runs, which it may not in half precision.")
        matrices = [one for one in args if isinstance(one, cls) and one.ndim > 1]
        in_workspace = matrices[0] if name in PRODUCTS and len(matrices) == 1 else None

        def converted(weight: Float32Weight) -> Tensor:
            return weight.workspace.converted(weight.stored) if weight is in_workspace else weight.stored.float()

        return function(*tree_map_only(cls, converted, args), **tree_map_only(cls, converted, kwargs))


# Of each model, while it lives.
_workspaces: "WeakKeyDictionary[nn.Module, Workspace]" = WeakKeyDictionary()


def in_float32(model: nn.Module) -> nn.Module:
    """Returns a model, or one that computes in float32 with the same weights, for one in half precision, whose sums
    would not add up.

    It has modules of its own, and follows the weights where they change. Memory for the largest weight in float32 is
    taken by each thread that runs it, while the model lives. A model is copied as a whole if torch.jit compiles some of
    it, or if some weights are loaded while it runs. Running it raises ValueError if it changes its own weights.
    """
    check_model(model)
    if all(one.dtype not in HALVES for one in model.parameters()):
        return model
    with torch.inference_mode(False), torch.no_grad():  # weights are leaves of later passes, which take gradients
        is_compiled = any(isinstance(module, torch.jit.ScriptModule) for module in model.modules())
        if is_compiled or any(one.is_meta for one in model.parameters()):
            return copy.deepcopy(model).float()
        workspace = _workspaces.setdefault(model, Workspace())
        tensors = *model.parameters(), *model.buffers()
        numbers: dict[int, Any] = {id(one): _in_float32(one, workspace) for one in tensors}
        return copy.deepcopy(model, numbers)


def _in_float32(tensor: Tensor, workspace: Workspace) -> Tensor:
    """Returns a parameter that is read in float32, or a copy of a buffer, which a model may change."""
    is_half = tensor.dtype in HALVES
    if isinstance(tensor, nn.Parameter):
        return nn.Parameter(Float32Weight(tensor.detach(), workspace), tensor.requires_grad) if is_half else tensor
    return tensor.float() if is_half else tensor.clone()


def plain_float32(weight: Tensor) -> Tensor:
    """Returns the numbers of a weight without a gradient, converted if they are stored in half precision."""
    return weight.stored.float() if isinstance(weight, Float32Weight) else weight.detach()
