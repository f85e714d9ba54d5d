"""Several heads, layers or tokens taken together."""

from collections.abc import Sequence
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from attnviz.analysis.head_maps import Aggregate, Map, Special, aggregate_maps, head_map, shown_positions
from attnviz.inputs import Inputs
from attnviz.layer import Kind, Layer
from attnviz.mechanism import BLOCK, Mechanism


def aggregate_heads(
    layers: Sequence[Layer],
    mechanisms: Sequence[Mechanism],
    heads: Sequence[tuple[int, int]],
    how: Aggregate,
    special: Special = Special.SHOWN,
    rows: slice = slice(None),
) -> Map:
    """The mean, the maximum or the minimum of the weights of chosen heads, each a pair (layer, head), cell by cell.

    NaN where none of them may look; a head that alone may not look there counts as weight 0. Of the queries in `rows`,
    all of them unless it says which.
    Raises ValueError when no head is chosen, or when they are not all of the same numbers of queries and keys.
    """
    if not heads:
        raise ValueError("No head is chosen. Choose one or more.")
    shapes = {(layers[layer].inputs.queries, layers[layer].inputs.keys) for layer, _ in heads}
    if len(shapes) > 1:
        listed = " and ".join(f"{queries} queries by {keys} keys" for queries, keys in sorted(shapes))
        raise ValueError(
            f"Only heads that look from the same tokens at the same tokens can be taken together; these have {listed}. "
            "Choose heads of one kind of attention."
        )
    return aggregate_maps(
        (head_map(layers[layer].inputs, mechanisms[layer], head, special, rows) for layer, head in heads), how
    )


def rollout(
    layers: Sequence[Layer], mechanisms: Sequence[Mechanism], rows: slice | Sequence[int] = slice(None)
) -> Float[Tensor, "rows keys"]:
    """How much of each token of the text reaches the queries in `rows` through all these layers, the first one lowest.

    Attention rollout (Abnar & Zuidema 2020): the product of the layers' A + I, with A the mean of a layer's heads and
    I the residual stream, each row scaled to add up to 1, as in the authors' code; with softmax that is half of each.
    A query that may look at nothing keeps itself. Of n tokens no n × n numbers are held unless all rows are asked for.
    Raises ValueError for layers that cannot be stacked, and for negative weights, which are no shares.
    """
    if not layers:
        raise ValueError("There is no layer to roll out. Choose one or more.")
    size = layers[0].inputs.queries
    for layer, mechanism in zip(layers, mechanisms, strict=True):
        if layer.kind is Kind.CROSS or layer.inputs.queries != size or layer.inputs.keys != size:
            raise ValueError(
                f"Rollout goes through layers in which the same {size} tokens look at each other; {layer.name} has "
                f"{layer.inputs.queries} queries and {layer.inputs.keys} keys of {layer.kind} attention. "
                "Choose the self-attention of one encoder or decoder."
            )
        if mechanism.normalizer.negative:
            raise ValueError(
                f"Rollout follows shares, and {type(mechanism.normalizer).__name__} gives weights below 0. "
                "Choose another normalizer."
            )
    inputs = layers[0].inputs
    share = torch.eye(size, dtype=inputs.query.dtype, device=inputs.query.device)[rows]
    for layer, mechanism in zip(reversed(layers), reversed(mechanisms), strict=True):
        below = torch.zeros_like(share)
        for first in range(0, size, BLOCK):
            block = slice(first, first + BLOCK)
            if not share[:, block].any():  # such as those after the last row, with a causal mask
                continue
            step = sum(mechanism(layer.inputs, heads=[head], rows=block).weights[0] for head in range(inputs.heads))
            assert isinstance(step, Tensor)
            step /= inputs.heads
            step.diagonal(first).add_(1)
            below += share[:, block] @ (step / step.sum(-1, keepdim=True))
        share = below
    return share


def value_weighted_map(
    inputs: Inputs, mechanism: Mechanism, head: int, special: Special = Special.SHOWN, rows: slice = slice(None)
) -> Map:
    """The length of what each key adds to a query's output: the weight times the norm of the head's value vector.

    Kobayashi et al. 2020, "Attention is Not Only a Weight", who take the value vectors after the output projection,
    which is no part of attention here: these are the head's own values. NaN where not allowed; a row adds up to no
    fixed number. Of the queries in `rows`, all of them unless it says which.
    """
    keys = shown_positions(inputs.keys, inputs.special_keys, special)
    lengths = inputs.value_of(head).norm(dim=-1)[keys]
    return head_map(inputs, mechanism, head, special, rows).abs() * lengths


def aggregate_queries(
    weights: Map, queries: Sequence[int], how: Literal["sum", "mean"] = "sum"
) -> Float[Tensor, " keys"]:
    """What several queries together give to each key; NaN where none of them may look, which else counts as 0."""
    if not queries:
        raise ValueError("No token is selected. Select one or more.")
    rows = weights[list(queries)]
    total = rows.nansum(0) if how == "sum" else rows.nan_to_num(0).mean(0)
    return torch.where(rows.isnan().all(0), torch.nan, total)
