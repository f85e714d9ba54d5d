"""One forward pass of a model under interventions, at the speed of a plain one."""

from collections.abc import Iterable, Sequence
from typing import Any

from torch import Tensor, nn

from attnviz.base.language import value_error
from attnviz.models.interventions import (
    AnyIntervention,
    Intervention,
    PartIntervention,
    ablated_heads,
    check_places,
    intervene,
)
from attnviz.tracing.changed_run import LayerChange, run_changed
from attnviz.tracing.forward_arguments import forward_arguments
from attnviz.tracing.run_changes import LayerHeads, RunChange, changed_modules, zero_heads


def run(model: nn.Module, batch: Any, interventions: AnyIntervention | Iterable[AnyIntervention], **kwargs: Any) -> Any:
    """Returns the output of `model` for a batch under interventions.

    `batch` is what the model is called with: a mapping of keyword arguments, such as what a tokenizer makes, a tuple of
    positional ones, or one argument; a tensor of token ids alone may be one text, (tokens,), or several, (examples,
    tokens). `kwargs` are further arguments of the model. All examples of the batch are changed.

    Layers are counted in the order in which they run, as in `capture(model, batch)` where its `missing` is empty. Heads
    are ablated in every attention that `capture` sees, also where it has weights only, and the model computes all
    others itself, in its own attention implementation. Where a mask, a score or a normalizer is changed, the layer is
    computed from its queries, keys and values, after some of its rows are compared with the model's own; the
    attention weights that the model returns for it are NaN.

    Parts that `attnviz.effects.part_intervention` made changes of are changed in every example alike; heads of a layer
    with another mechanism are not.

    One forward pass of a model object runs at a time, in evaluation mode and without gradients, and the model is
    restored. Raises ValueError if there is no such layer or head, or if the mechanism of a layer is to be changed whose
    queries and keys are not known.

    Example:
        >>> import torch
        >>> encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, nhead=2, batch_first=True), num_layers=2)
        >>> run(encoder, torch.randn(1, 3, 8), Intervention(ablated=((0, 1), (1, 0)))).shape
        torch.Size([1, 3, 8])
    """
    chosen = tuple(interventions) if isinstance(interventions, Iterable) else (interventions,)
    for one in chosen:
        if not isinstance(one, AnyIntervention):
            raise value_error(
                "Interventions are expected, such as Intervention(ablated=((0, 1),)); this is {one}.",
                one=f"{one!r:.60}",
            )

    mechanisms = [one for one in chosen if isinstance(one, Intervention)]
    parts = [each for one in chosen if isinstance(one, PartIntervention) for each in one.whole]
    arguments = forward_arguments(model, batch if isinstance(batch, tuple) else (batch,), kwargs)
    counts = arguments.example_counts()
    zeros = zero_heads(ablated_heads(mechanisms))

    def change(layer: int, heads: int) -> LayerChange | None:
        if not any(one.changes_mechanism(layer) for one in mechanisms):
            return _in_every_example([each for each in (*parts, zeros) if layer in each.layers], layer, counts)
        if any(layer in each.layers for each in parts):
            raise value_error(
                "The mechanism of layer {layer} is changed, or parts of its heads, and not both.", layer=layer
            )
        return LayerChange(mechanism=lambda mechanism: intervene(mechanism, mechanisms, layer))

    modules = changed_modules([parts] * counts[0], lambda: counts[0])
    output, heads = run_changed(model, arguments, change, lambda _: modules)
    check_places(mechanisms, heads)
    return output


def _in_every_example(changes: Sequence[RunChange], layer: int, counts: Sequence[int]) -> LayerChange | None:
    """Returns what is changed in a layer in all examples alike, None if nothing is; `counts` are the numbers of them
    that a batch may hold."""
    if not changes:
        return None

    def change_heads(run: LayerHeads) -> None:
        for each in changes:
            assert each.heads is not None
            for example in range(run.examples):
                each.heads(layer, run, example)

    def change_weights(weights: Tensor) -> None:
        examples = len(weights) if len(weights) in counts else counts[0]
        for each in changes:
            assert each.weights is not None
            for of_example in weights.unflatten(0, (examples, -1)):
                each.weights(layer, of_example)

    has_weights = all(each.weights for each in changes)
    return LayerChange(heads=change_heads, weights=change_weights if has_weights else None)
