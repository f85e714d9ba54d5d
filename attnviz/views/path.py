"""What Path shows."""

from collections.abc import Sequence

import numpy as np

from attnviz.formatting import quoted
from attnviz.language import N_, _, in_sentence, value_error
from attnviz.page.page_view import PageView, Panel
from attnviz.path.activation import Activation, Sublayer, layer_name
from attnviz.state.color_range import ColorRange
from attnviz.state.path import PathState
from attnviz.views.path_names import layer_title, sublayer_title

MEAN = N_("Mean of heads")


def path(state: PathState) -> PageView:
    """Returns the weights of what is open: where it is the whole model, the mean of all heads in each layer; where it
    is a layer, its heads; where it is a part of attention, the selected head. Raises ValueError if it has none."""
    record, name = state.record, state.open
    heads: Sequence[int | None] = range(record.heads)
    if not name:
        sublayers, heads = record.sublayers, [None]
    elif name in record.layers:
        sublayers = record.layers[name]
    else:
        sublayers, heads = tuple(one for one in record.sublayers if one.name == record[name].sublayer), [state.head]
    panels = [
        _panel(sublayer, weights, head)
        for sublayer in sublayers
        for weights in sublayer.activations
        if weights.part == "weights"
        for head in heads
    ]
    if not panels:
        raise value_error("{name} has no weights of attention. Open a layer with attention, such as {example}.",
              name=quoted(name), example=quoted("encoder 0"))  # fmt: skip
    return PageView(tuple(panels), {}, colors=ColorRange.ONE)


def _panel(sublayer: Sublayer, weights: Activation, head: int | None) -> Panel:
    (scores,) = weights.sources
    values, allowed = weights.values.numpy(), scores.values.isfinite().numpy()
    shown = np.where(allowed, values, np.nan)
    title = _(
        "{layer}: {attention}, {heads}",
        layer=layer_title(layer_name(sublayer)),
        attention=in_sentence(sublayer_title(sublayer)),
        heads=in_sentence(MEAN if head is None else f"Head {head}"),
    )
    return Panel(title, shown.mean(0) if head is None else shown[head], weights.rows, weights.columns)
