"""The methods of aggregation, and the heads that they take."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from attnviz.analysis.head_maps import Aggregate
from attnviz.figures.sentences import GIVES_AT_MOST, GIVES_ON_AVERAGE
from attnviz.language import N_, option_name
from attnviz.layer import BETWEEN, Layer, head_name, head_option

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
        N_("Each cell is the largest weight that a chosen head has there, so that what only one head does is visible."),
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


def head_choices(layers: Sequence[Layer], stack: Sequence[int]) -> dict[str, tuple[LayerHead, ...]]:
    """Returns the heads of the layers in a stack by their names in a menu: those of whole layers, and single ones."""
    by_name: dict[str, tuple[LayerHead, ...]] = {}
    for i in stack:
        heads = tuple((i, head) for head in range(layers[i].inputs.heads))
        by_name |= {layers[i].name: heads} | {head_option(layers[i].id, head[1]): (head,) for head in heads}
    return by_name


def layer_head_name(option: str, code: str | None = None) -> str:
    """Returns the name of a layer or of a head of it in a menu, in a language, by default the current one."""
    layer, between, head = option.partition(BETWEEN)
    return head_name(layer, head, code) if between else option_name(layer, code)


def layer_head_names(layers: Sequence[Layer], heads: Collection[LayerHead]) -> list[str]:
    """Returns the names of heads, or the layer's name for all of its heads."""
    names: list[str] = []
    for i, layer in enumerate(layers):
        chosen = sorted(head for index, head in heads if index == i)
        is_whole = len(chosen) == layer.inputs.heads
        names += [layer.name] if is_whole else [head_option(layer.id, head) for head in chosen]
    return names
