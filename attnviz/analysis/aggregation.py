"""Aggregation of attention over heads, layers and queries."""

from collections.abc import Sequence
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from attnviz.analysis.head_maps import Aggregate, Map, Special, aggregate_maps, head_map, shown_positions
from attnviz.base.formatting import enumeration
from attnviz.base.language import _, value_error
from attnviz.inputs import MapAxes
from attnviz.layer import FixedWeights, Kind, Layer
from attnviz.mechanism import BLOCK, Mechanism


def aggregate_heads(
    layers: Sequence[Layer],
    heads: Sequence[tuple[int, int]],
    aggregate: Aggregate,
    special: Special = Special.SHOWN,
    rows: slice = slice(None),
) -> Map:
    """Returns the mean, maximum or minimum of the maps of `heads`, each a (layer, head), for the queries in `rows`.

    NaN where all heads mask the cell; a head that masks it alone counts as weight 0. Raises ValueError if there are no
    heads, or if they differ in their numbers of queries or keys.

    Example:
        >>> from attnviz.inputs import Inputs
        >>> from attnviz.layer import LayerId
        >>> from attnviz.masks import Causal, Full
        >>> inputs = Inputs(*torch.zeros(3, 2, 2, 4), ("a", "b"), ("a", "b"))
        >>> layers = [Layer(LayerId(), Kind.SELF, inputs, Mechanism(mask=mask)) for mask in (Full(), Causal())]
        >>> aggregate_heads(layers, [(0, 0), (1, 0)], Aggregate.MEAN)
        tensor([[0.7500, 0.2500],
                [0.5000, 0.5000]])
    """
    if not heads:
        raise value_error("No head is chosen. Choose one or more.")
    shapes = {(layers[layer].inputs.queries, layers[layer].inputs.keys) for layer, _ in heads}
    if len(shapes) > 1:
        listed = enumeration([_("{queries} queries by {keys} keys", queries=q, keys=k) for q, k in sorted(shapes)])
        raise value_error(
            "Heads can be aggregated if they have the same queries and keys; these have {listed}. "
            "Choose heads of one kind of attention.",
            listed=listed,
        )
    return aggregate_maps(
        (head_map(layers[layer].inputs, layers[layer].mechanism, head, special, rows) for layer, head in heads),
        aggregate,
    )


def rollout(layers: Sequence[Layer], rows: slice | Sequence[int] = slice(None)) -> Float[Tensor, "rows keys"]:
    """Returns the attention rollout of stacked layers, lowest first, for the queries in `rows`.

    The product of the layers' A + I, where A is the mean of a layer's heads and I the residual connection, with each
    row divided by its sum (Abnar & Zuidema 2020, as in the authors' code). An empty row attends to itself. With n
    tokens and r rows, memory is r × n numbers. Raises ValueError for layers that cannot be stacked, and for negative
    weights.

    Example:
        >>> from attnviz.inputs import Inputs
        >>> from attnviz.layer import LayerId
        >>> from attnviz.masks import Causal
        >>> inputs = Inputs(*torch.zeros(3, 1, 3, 4), tuple("abc"), tuple("abc"))
        >>> layer = Layer(LayerId(), Kind.CAUSAL, inputs, Mechanism(mask=Causal()))
        >>> rollout([layer, layer], rows=[2])
        tensor([[0.3194, 0.2361, 0.4444]])
    """
    if not layers:
        raise value_error("There is no layer to roll out. Choose one or more.")
    size = layers[0].inputs.queries
    for layer in layers:
        if layer.kind is Kind.CROSS or layer.inputs.queries != size or layer.inputs.keys != size:
            raise value_error(
                "Rollout needs layers in which the same {size} tokens attend to each other; {name} "
                "has {queries} queries and {keys} keys of {kind} attention. Choose the "
                "self-attention of one encoder or decoder.",
                size=size,
                name=layer.name,
                queries=layer.inputs.queries,
                keys=layer.inputs.keys,
                kind=layer.kind,
            )
    share = torch.eye(size, dtype=layers[0].inputs.dtype, device=layers[0].inputs.device)[rows]
    for layer in reversed(layers):
        below = torch.zeros_like(share)
        for first in range(0, size, BLOCK):
            block = slice(first, first + BLOCK)
            if not share[:, block].any():  # such as those after the last row, with a causal mask
                continue
            step = sum(_rollout_weights(layer, head, block) for head in range(layer.inputs.heads))
            assert isinstance(step, Tensor)
            step /= layer.inputs.heads
            step.diagonal(first).add_(1)
            below += share[:, block] @ (step / step.sum(-1, keepdim=True))
        share = below
    return share


def _rollout_weights(layer: Layer, head: int, rows: slice) -> Map:
    weights = layer.maps([head], rows)[0].nan_to_num(0)
    if bool((weights < 0).any()):
        raise value_error(
            "Rollout needs weights of 0 or more, and {layer} has negative ones. Choose others.", layer=layer.name
        )
    return weights


def value_weighted_map(
    inputs: MapAxes,
    mechanism: Mechanism | FixedWeights,
    head: int,
    special: Special = Special.SHOWN,
    rows: slice = slice(None),
) -> Map:
    """Returns the weights of one head times the norms of its value vectors, for the queries in `rows`.

    The norm of the vector that each key adds to a query's output; NaN where not allowed. Kobayashi et al. 2020,
    "Attention is Not Only a Weight", but with the value vectors before the output projection.

    Example:
        >>> from attnviz.inputs import Inputs
        >>> value = torch.tensor([[[3.0, 4.0], [0.0, 0.0]]])
        >>> inputs = Inputs(*torch.zeros(2, 1, 2, 2), value, ("a", "b"), ("a", "b"))
        >>> value_weighted_map(inputs, Mechanism(), head=0)
        tensor([[2.5000, 0.0000],
                [2.5000, 0.0000]])
    """
    keys = shown_positions(inputs.keys, inputs.special_keys, special)
    lengths = inputs.vectors.value_of(head).norm(dim=-1)[keys]
    return head_map(inputs, mechanism, head, special, rows).abs() * lengths


def aggregate_queries(
    weights: Map, queries: Sequence[int], reduction: Literal["sum", "mean"] = "sum"
) -> Float[Tensor, " keys"]:
    """Returns the sum or the mean of several rows of a map; NaN where all of them are masked.

    Example:
        >>> aggregate_queries(torch.tensor([[0.5, 0.5], [1.0, torch.nan]]), [0, 1])
        tensor([1.5000, 0.5000])
    """
    if not queries:
        raise value_error("No token is selected. Select one or more.")
    rows = weights[list(queries)]
    total = rows.nansum(0) if reduction == "sum" else rows.nan_to_num(0).mean(0)
    return torch.where(rows.isnan().all(0), torch.nan, total)
