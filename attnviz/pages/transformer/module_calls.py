"""The calls of a model's modules in a forward pass: what each read, and what it returned."""

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

from jaxtyping import Float
from torch import Tensor, nn

CallKind = Literal["embedding", "norm", "linear", "model"]
BLOCK = re.compile(r"(.*?\.)??\d+(?=\.)")  # the start of a module's name, up to the number of its layer


@dataclass(frozen=True, eq=False)
class ModuleCall:
    """A call of an embedding, a norm or a linear map, or of the model, which returns logits; without the axis of the
    batch."""

    name: str  # of the module in the model
    module: Any
    kind: CallKind
    source: Tensor  # what the module read
    output: Tensor
    of_outputs: Callable[[Tensor], Tensor] = lambda one: one  # of the last axis, if a part of a linear map is meant

    def part(self, of_outputs: Callable[[Tensor], Tensor]) -> "ModuleCall":
        """Returns the call of a part of a linear map: its weight, bias and output are views, such as those of heads."""
        return replace(self, output=of_outputs(self.output), of_outputs=of_outputs)

    @property
    def block(self) -> str:
        """The name of the layer of the model that the module is part of; empty outside of layers."""
        match = BLOCK.match(self.name)
        return match[0] if match else ""

    @property
    def weight(self) -> Float[Tensor, "inputs *outputs"]:
        """The weight of a linear map. transformers' Conv1D stores it like this, and torch's Linear transposed."""
        return self.of_outputs(self.module.weight.T if isinstance(self.module, nn.Linear) else self.module.weight)

    @property
    def bias(self) -> Float[Tensor, "*outputs"] | None:
        bias = getattr(self.module, "bias", None)
        return None if bias is None else self.of_outputs(bias)


@contextmanager
def recorded_calls(model: nn.Module) -> Iterator[list[ModuleCall]]:
    """Records the calls of a model that this thread runs meanwhile, of one example, in their order."""
    calls: list[ModuleCall] = []
    thread = threading.get_ident()
    is_open = True

    def keep(name: str, module: nn.Module, kind: CallKind) -> Any:
        def hook(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
            # A copy of the model that another thread makes meanwhile has these hooks too.
            if kind == "model":
                output = getattr(output, "logits", None)
            if output is not None and is_open and threading.get_ident() == thread:
                source = next((one for one in (*args, *kwargs.values()) if isinstance(one, Tensor)), output)
                calls.append(ModuleCall(name, module, kind, _of_example(source), _of_example(output)))

        return module.register_forward_hook(hook, with_kwargs=True)

    hooks = [keep(name, module, kind) for name, module in model.named_modules() if (kind := _kind(module)) is not None]
    hooks.append(keep("", model, "model"))
    try:
        yield calls
    finally:
        is_open = False
        for hook in hooks:
            hook.remove()


def _kind(module: nn.Module) -> CallKind | None:
    if isinstance(module, nn.Embedding):
        return "embedding"
    name, weight = type(module).__name__, getattr(module, "weight", None)
    if not isinstance(weight, Tensor):
        return None
    if isinstance(module, nn.Linear) or name == "Conv1D":
        return "linear"
    return "norm" if "norm" in name.lower() and weight.ndim == 1 else None


def _of_example(values: Tensor) -> Tensor:
    """Returns a copy, in case the model writes into the tensor, without the axis of the batch."""
    values = values.detach().to("cpu", copy=True)
    return (values[0] if values.ndim > 2 else values).float()
