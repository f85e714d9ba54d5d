"""The methods of aggregation of heads and layers."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache

from attnviz.analysis.aggregation import aggregate_heads, rollout, value_weighted_map
from attnviz.analysis.head_maps import Aggregate, Map, Special, aggregate_maps
from attnviz.analysis.work import check_work
from attnviz.figures.sentences import GIVES_AT_MOST, GIVES_ON_AVERAGE, CellSentences
from attnviz.language import N_, _, in_sentence, option_name
from attnviz.layer import Layer
from attnviz.ui.head_map import HeadMap, compute_map
from attnviz.ui.models import attention_kinds
from attnviz.ui.models.selection import ModelSelection

BETWEEN = ", head "  # a layer and the number of a head, in an option
LayerHead = tuple[int, int]  # the index of a layer, and a head of it
ROLLOUT, VALUE_WEIGHTED = N_("Rollout"), N_("Value-weighted")


@dataclass(frozen=True)
class AggregationMethod:
    """A method that aggregates heads or layers, and its texts."""

    about: str
    sentence: str  # of one cell; {layer} is the last of the layers
    aggregate: Aggregate | None = None  # where heads are chosen by hand
    total: str = N_("{weight} to {key}")  # of several queries together


METHODS = {
    N_("Mean"): AggregationMethod(
        N_("Each cell is the mean of the weights that the chosen heads have there."),
        GIVES_ON_AVERAGE,
        Aggregate.MEAN,
    ),
    N_("Maximum"): AggregationMethod(
        N_("Each cell is the largest weight that a chosen head has there, so that what one head alone does is seen."),
        GIVES_AT_MOST,
        Aggregate.MAXIMUM,
    ),
    N_("Minimum"): AggregationMethod(
        N_("Each cell is the smallest weight that a chosen head has there: what all of them look at."),
        N_("{query} gives at least {weight} of its attention to {key}, in every one of these heads."),
        Aggregate.MINIMUM,
    ),
    ROLLOUT: AggregationMethod(
        N_(
            "What has come from where after these layers, if each layer takes as much from attention, "
            "the mean of its heads, as it keeps of what was there (Abnar & Zuidema 2020)."
        ),
        N_("{weight} of what is at {query} after {layer} comes from {key}."),
        total=N_("{weight} from {key}"),
    ),
    VALUE_WEIGHTED: AggregationMethod(
        N_(
            "The weight times the length of the key’s value vector: how much a key adds. One that gets "
            "attention but has next to no value adds next to nothing. As in Kobayashi et al. 2020, but "
            "before the layer’s output projection."
        ),
        N_("{key} adds a vector of length {weight} to {query}."),
        total=N_("a length of {weight} from {key}"),
    ),
}


def aggregate_map(selection: ModelSelection, stack: Sequence[int], heads: Sequence[LayerHead], method: str) -> HeadMap:
    """Returns the map of several heads, aggregated by the method of that name.

    `stack` are the layers that can be chosen from. Raises ValueError if it takes too much work or cannot be computed.
    """
    inputs, aggregation = selection.layer.inputs, METHODS[method]
    work = len(heads) * inputs.queries * inputs.keys
    fewer = _("layers") if method == ROLLOUT else _("heads")
    check_work(
        work,
        _("To take {count} heads together").format(count=len(heads)),
        _("Choose fewer {fewer}, or shorten the text.").format(fewer=fewer),
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
    layers, mechanisms, special = selection.layers, selection.mechanisms, selection.special
    inputs, aggregate = selection.layer.inputs, METHODS[method].aggregate
    if aggregate is not None:
        return lambda rows: aggregate_heads(layers, mechanisms, heads, aggregate, special, rows)
    if method == VALUE_WEIGHTED:
        best = Aggregate.MAXIMUM if selection.head == Aggregate.MAXIMUM else Aggregate.MEAN
        return lambda rows: aggregate_maps(
            (value_weighted_map(inputs, mechanisms[layer], head, special, rows) for layer, head in heads), best
        )
    through = sorted({layer for layer, _ in heads})
    stack = [layers[i] for i in through], [mechanisms[i] for i in through]
    whole = lru_cache(1)(lambda: rollout(*stack))  # every block of rows needs all that is below
    queries, keys = set(selection.queries), selection.keys

    def rolled(rows: slice) -> Map:
        positions = [i for i in range(inputs.queries)[rows] if i in queries]
        result = (rollout(*stack, positions) if len(positions) == 1 else whole()[positions])[:, keys]
        return result / result.sum(-1, keepdim=True) if special == Special.RESCALED else result

    return rolled


def _title(selection: ModelSelection, stack: Sequence[int], heads: Sequence[LayerHead], method: str) -> str:
    if method == ROLLOUT:
        layers = [option_name(selection.layers[i].name) for i in sorted({layer for layer, _ in heads})]
        return (
            _("Rollout, {first} to {last}").format(first=layers[0], last=layers[-1])
            if len(layers) > 1
            else _("Rollout, {layer}").format(layer=layers[0])
        )
    names = [layer_head_name(name) for name in layer_head_names(selection.layers, heads)]
    if len(stack) > 1 and len(heads) == sum(selection.layers[i].inputs.heads for i in stack):
        names = [_("all {count} heads{of_stack}").format(count=len(heads), of_stack=of_stack(selection, stack))]
    elif len(names) > 3:
        names = [_("{count} heads").format(count=len(heads))]
    if method == VALUE_WEIGHTED:
        return f"{_(method)}, {' + '.join(names)}"
    return _("{method} of {heads}").format(method=_(method), heads=f" {_('and')} ".join(names))


def of_stack(selection: ModelSelection, stack: Sequence[int]) -> str:
    """Returns “ of” with the layer or the kind of attention; empty if the stack has all layers."""
    if len(stack) == 1:
        return _(" of {name}").format(name=option_name(selection.layer.name))
    if len(stack) == len(selection.layers):
        return ""
    return _(" of {name}").format(
        name=in_sentence(attention_kinds.kind_name(selection.layer, selection.model.is_encoder_decoder))
    )


def layer_head_name(option: str, code: str | None = None) -> str:
    """Returns the name of a layer or of a head of it in a menu, in a language, by default the current one."""
    layer, between, head = option.partition(BETWEEN)
    return option_name(layer, code) + (f", {in_sentence(f'Head {head}', code)}" if between else "")


def layer_head_names(layers: Sequence[Layer], heads: Collection[LayerHead]) -> list[str]:
    """Returns the names of heads, or the layer's name for all of its heads."""
    names: list[str] = []
    for i, layer in enumerate(layers):
        chosen = sorted(head for index, head in heads if index == i)
        is_whole = len(chosen) == layer.inputs.heads
        names += [layer.name] if is_whole else [f"{layer.name}, head {head}" for head in chosen]
    return names
