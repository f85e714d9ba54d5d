"""The map of several heads or layers as one."""

from collections.abc import Callable, Sequence

from attnviz.analysis.aggregation import aggregate_heads, value_weighted_map
from attnviz.analysis.head_maps import Aggregate, Map, aggregate_maps
from attnviz.analysis.work import check_work
from attnviz.figures.sentences import CellSentences
from attnviz.language import _, in_sentence, option_name
from attnviz.state.aggregation_methods import (
    METHODS,
    ROLLOUT,
    VALUE_WEIGHTED,
    LayerHead,
    layer_head_name,
    layer_head_names,
)
from attnviz.state.models import ModelSelection
from attnviz.views import attention_kinds
from attnviz.views.selected_maps import HeadMap, compute_map, rollout_rows


def aggregate_map(selection: ModelSelection, stack: Sequence[int], heads: Sequence[LayerHead], method: str) -> HeadMap:
    """Returns the map of several heads, aggregated by the method of that name.

    `stack` are the layers that can be chosen from. Raises ValueError if it takes too much work or cannot be computed.
    """
    inputs, aggregation = selection.inputs, METHODS[method]
    work = len(heads) * inputs.queries * inputs.keys
    fewer = _("layers") if method == ROLLOUT else _("heads")
    check_work(
        work,
        _("To take {count} heads together", count=len(heads)),
        _("Choose fewer {fewer}, or shorten the text.", fewer=fewer),
    )
    last_layer = selection.layers[max(layer for layer, _ in heads)].name
    return compute_map(
        selection,
        _computation(selection, heads, method),
        _title(selection, stack, heads, method),
        CellSentences(_(aggregation.sentence).replace("{layer}", option_name(last_layer))),
        ("aggregate", method, heads, selection.head == Aggregate.MAXIMUM),
        work,
    )


def _computation(selection: ModelSelection, heads: Sequence[LayerHead], method: str) -> Callable[[slice], Map]:
    """Returns a function that computes the weights of the queries in a slice, at all shown keys."""
    layers, special = selection.layers, selection.special
    inputs, aggregate = selection.inputs, METHODS[method].aggregate
    if aggregate is not None:
        return lambda rows: aggregate_heads(layers, heads, aggregate, special, rows)
    if method == VALUE_WEIGHTED:
        best = Aggregate.MAXIMUM if selection.head == Aggregate.MAXIMUM else Aggregate.MEAN
        return lambda rows: aggregate_maps(
            (value_weighted_map(inputs, layers[layer].mechanism, head, special, rows) for layer, head in heads), best
        )
    return rollout_rows(selection, [layers[i] for i in sorted({layer for layer, _ in heads})])


def _title(selection: ModelSelection, stack: Sequence[int], heads: Sequence[LayerHead], method: str) -> str:
    if method == ROLLOUT:
        layers = [option_name(selection.layers[i].name) for i in sorted({layer for layer, _ in heads})]
        return (
            _("Rollout, {first} to {last}", first=layers[0], last=layers[-1])
            if len(layers) > 1
            else _("Rollout, {layer}", layer=layers[0])
        )
    names = [layer_head_name(name) for name in layer_head_names(selection.layers, heads)]
    if len(stack) > 1 and len(heads) == sum(selection.layers[i].inputs.heads for i in stack):
        name, count = stack_name(selection, stack), len(heads)
        all_heads = _("all {count} heads of {stack}") if name else _("all {count} heads")
        names = [all_heads.format(count=count, stack=name)]
    elif len(names) > 3:
        names = [_("{count} heads", count=len(heads))]
    if method == VALUE_WEIGHTED:
        return f"{_(method)}, {' + '.join(names)}"
    return _("{method} of {heads}", method=_(method), heads=f" {_('and')} ".join(names))


def stack_name(selection: ModelSelection, stack: Sequence[int]) -> str:
    """Returns the name of the layer or the kind of attention; empty if the stack has all layers."""
    if len(stack) == 1:
        return option_name(selection.layer.name)
    if len(stack) == len(selection.layers):
        return ""
    return in_sentence(attention_kinds.kind_name(selection.layer, selection.model.is_encoder_decoder))
