"""Rows of a batch that are alike below some layer: a layer computes them once."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map

from attnviz.tracing.changed_run import ChangedRun

SAME = 1e-5  # the difference of rows, as a share, that comes from rounding


@dataclass(eq=False)
class LayerCalls:
    """The layers of attention that run in each call of the modules that a model has in lists, such as its layers."""

    layers: dict[nn.Module, list[range]] = field(default_factory=lambda: defaultdict(list))

    @contextmanager
    def recorded(self, run: ChangedRun) -> Iterator[None]:
        """Records the calls of the run within the context."""

        first = [0]

        def enter(module: nn.Module, args: Any) -> None:
            first[0] = len(run.heads)

        def leave(module: nn.Module, args: Any, result: Any) -> None:
            self.layers[module].append(range(first[0], len(run.heads)))

        with ExitStack() as hooks:
            for module in listed_modules(run):
                hooks.enter_context(module.register_forward_pre_hook(enter))
                hooks.enter_context(module.register_forward_hook(leave))
            yield

    @contextmanager
    def shared(self, run: ChangedRun, first_layers: Sequence[int], examples: int = 1) -> Iterator[None]:
        """Computes rows once as long as they are alike. `first_layers` says, for each row, in what layer of attention
        it begins to differ from those after it; it is sorted. A row is one example, or several."""
        rows, calls = len(first_layers), {module: iter(layers) for module, layers in self.layers.items()}
        different = [rows]  # rows in the call that runs, without those that are like the last

        def enter(module: nn.Module, args: Any, kwargs: Any) -> tuple[Any, Any] | None:
            layers = next(calls.get(module, iter(())), ())
            different[0] = sum(layer <= layers[-1] for layer in first_layers[:-1]) if layers else rows
            if different[0] + 1 >= rows:
                return None
            narrowed: tuple[Any, Any] = tree_map(_on_tensors(_narrowed, rows, different[0]), (args, kwargs))
            states = next((value for value in tree_leaves(narrowed) if isinstance(value, Tensor)), None)
            if states is None or len(states) % (different[0] + 1):
                different[0] = rows
                return None
            run.example_counts = ((different[0] + 1) * examples,)
            return narrowed

        def leave(module: nn.Module, args: Any, result: Any) -> Any:
            if different[0] + 1 >= rows:
                return None
            run.example_counts = (rows * examples,)
            return tree_map(_on_tensors(_widened, rows, different[0]), result)

        with ExitStack() as hooks:
            for module in listed_modules(run):
                hooks.enter_context(module.register_forward_pre_hook(enter, with_kwargs=True))
                hooks.enter_context(module.register_forward_hook(leave))
            yield


def listed_modules(run: ChangedRun) -> list[nn.Module]:
    """Returns the modules of a model's lists, without those inside another one."""
    listed: list[nn.Module] = []
    inside: set[nn.Module] = set()
    for module in run.names.modules:
        for each in module if isinstance(module, nn.ModuleList) else ():
            if each not in inside:
                listed.append(each)
                inside.update(each.modules())
    return listed


def _on_tensors(change: Callable[[Tensor, int, int], Tensor], rows: int, different: int) -> Callable[[Any], Any]:
    return lambda value: change(value, rows, different) if isinstance(value, Tensor) and value.ndim else value


def _narrowed(tensor: Tensor, rows: int, different: int) -> Tensor:
    """Returns the rows that differ and one for the others, of a tensor that holds numbers of each row."""
    if len(tensor) % rows:
        return tensor
    by_row = tensor.unflatten(0, (rows, -1))
    own, last = by_row[different:], by_row[-1:].expand_as(by_row[different:])
    # Equal bits, as rows mostly have here, are seen in a tenth of the time.
    if not torch.equal(own, last) and not torch.allclose(own, last, SAME, SAME, equal_nan=True):
        return tensor
    return by_row[: different + 1].flatten(0, 1)


def _widened(tensor: Tensor, rows: int, different: int) -> Tensor:
    """Returns all rows of a tensor that holds those that differ, and one for the others."""
    if len(tensor) % (different + 1):
        return tensor
    by_row = tensor.unflatten(0, (different + 1, -1))
    others = by_row[different:].expand(rows - different, *by_row.shape[1:])
    return torch.cat([by_row[:different], others]).flatten(0, 1)
