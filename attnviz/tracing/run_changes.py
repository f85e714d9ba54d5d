"""What is changed in one run of a model: what heads write, and what calls of modules read or return."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnviz.base.language import value_error
from attnviz.layer import LayerId
from attnviz.tracing.call import Call


@dataclass(frozen=True, eq=False)
class LayerHeads:
    """The heads of a layer that has run, of all examples of a batch: a change may write into their output.

    Several sequences of one example, such as windows of an image, follow each other.
    """

    output: Tensor  # (sequences, queries, heads, width)
    call: Callable[[], Call]  # raises ValueError where queries and keys are not known
    attention: Callable[[Call, slice], tuple[Tensor, Tensor]]  # of some sequences: their outputs and their weights
    examples: int
    id: LayerId

    def sequences(self, example: int) -> slice:
        """Returns the sequences of an example."""
        groups = len(self.output) // self.examples
        return slice(example * groups, (example + 1) * groups)

    def values(self, head: int, sequences: slice) -> Tensor:
        """Returns the values (sequences, keys, width) that a head reads, which may share them with others."""
        value = self.call().value
        return value[sequences, head // (self.output.shape[2] // value.shape[1])]


@dataclass(frozen=True, eq=False)
class ModulePlace:
    """A call of a module: `number` counts the calls of this module before it in a run, and `layer` is a layer of
    attention below which nothing changes with it."""

    module: nn.Module
    number: int
    layer: int
    changes_input: bool = False  # not its output


@dataclass(frozen=True, eq=False)
class RunChange:
    """What is changed in one run: what heads write in some layers, or what one call of a module does.

    `heads` gets a layer, its heads and the number of the run's example in the batch; `weights` the weights (sequences,
    heads, queries, keys) of a layer that exposes nothing else; `values` what the module reads or returns, (positions,
    width). All change them in place.
    """

    layers: Collection[int] = ()
    heads: Callable[[int, LayerHeads, int], None] | None = None
    weights: Callable[[int, Tensor], None] | None = None
    module: ModulePlace | None = None
    values: Callable[[Tensor], None] | None = None

    @property
    def first_layer(self) -> int:
        """The first layer of attention that may give other numbers than without the change."""
        return self.module.layer if self.module else min(self.layers)


Run: TypeAlias = Sequence[RunChange]  # all that is changed in one run


def first_layer(run: Run) -> int:
    """Returns the first layer of attention that may give other numbers than without the changes of a run."""
    return min(each.first_layer for each in run)


def zero_heads(heads: Collection[tuple[int, int]]) -> RunChange:
    """Returns the change after which heads, each with its layer, write zeros."""

    def places(layer: int, count: int) -> list[int]:
        return [head for place, head in heads if place == layer and 0 <= head < count]

    def change_heads(layer: int, run: LayerHeads, example: int) -> None:
        run.output[run.sequences(example), :, places(layer, run.output.shape[2])] = 0

    def change_weights(layer: int, weights: Tensor) -> None:
        weights[:, places(layer, weights.shape[1])] = 0

    return RunChange({layer for layer, _head in heads}, change_heads, change_weights)


def by_example(states: Any, examples: int, module: nn.Module) -> Float[Tensor, "examples positions width"]:
    """Returns what a module reads or returns by example, as a view. Raises ValueError if the examples of a batch are
    not its first axis."""
    is_state = isinstance(states, Tensor) and states.ndim > 1 and len(states) % examples == 0
    if not is_state or (examples == 1 and states.ndim > 2 and len(states) > 1 == states.shape[1]):  # tokens first
        raise value_error(
            "The examples of a batch are not the first axis of what {name} reads or returns, so that it cannot be "
            "changed in one of them.",
            name=type(module).__name__,
        )
    rows: Tensor = states.unflatten(0, (examples, -1)).flatten(1, -2)
    return rows


@contextmanager
def changed_modules(changes: Sequence[Run], examples: Callable[[], int]) -> Iterator[None]:
    """Changes what calls of modules read or return within the context, for each example of a batch in its own way."""
    by_module: dict[nn.Module, list[tuple[int, RunChange]]] = defaultdict(list)
    for row, several in enumerate(changes):
        for each in several:
            if each.module is not None:
                by_module[each.module.module].append((row, each))
    counts: Counter[tuple[nn.Module, bool]] = Counter()

    def changed(module: nn.Module, states: Tensor, is_input: bool) -> Tensor:
        number = counts[module, is_input]
        counts[module, is_input] += 1
        acting = [
            (row, each.values)
            for row, each in by_module[module]
            if each.module and each.values and (each.module.number, each.module.changes_input) == (number, is_input)
        ]
        if acting:
            states = states.clone(memory_format=torch.contiguous_format)
            by_row = by_example(states, examples(), module)
            for row, change in acting:
                change(by_row[row])
        return states

    def enter(module: nn.Module, args: Any, kwargs: Any) -> tuple[Any, Any]:
        if args:
            return (changed(module, args[0], True), *args[1:]), kwargs
        return args, {**kwargs, "hidden_states": changed(module, kwargs["hidden_states"], True)}

    def leave(module: nn.Module, args: Any, result: Any) -> Any:
        if isinstance(result, tuple):
            return changed(module, result[0], False), *result[1:]
        return changed(module, result, False)

    with ExitStack() as hooks:
        for module in by_module:
            hooks.enter_context(module.register_forward_pre_hook(enter, with_kwargs=True))
            hooks.enter_context(module.register_forward_hook(leave))
        yield
