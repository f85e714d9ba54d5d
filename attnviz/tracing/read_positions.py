"""Which positions are read: all but padding, which a mask hides from every query."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool
from torch import Tensor

from attnviz.base.language import N_, value_error
from attnviz.inputs import MapAxes
from attnviz.layer import FixedWeights, Kind, Layer
from attnviz.masks import Mask, Padding
from attnviz.masks.mask import And
from attnviz.mechanism import Mechanism, blocks
from attnviz.trace.opaque_parts import ModelMask

NO_POSITION = N_("There is no position {index}: there are {count}, counted from 0.")


def visible_keys(allowed: Bool[Tensor, "*rows keys"]) -> Bool[Tensor, " keys"]:
    """Returns the keys that some query sees; all of them, where no query sees its own position.

    Example:
        >>> visible_keys(torch.tensor([[True, False, False], [True, True, False], [True, True, False]]))
        tensor([ True,  True, False])
    """
    cells = allowed.flatten(0, -3).any(0) if allowed.ndim > 2 else allowed.reshape(-1, allowed.shape[-1])
    hides_itself = len(cells) == cells.shape[1] > 1 and not cells.diagonal().any()
    return torch.ones_like(cells[0]) if hides_itself else cells.any(0)


def read_position(position: int, read: Bool[Tensor, " positions"]) -> int:
    """Returns the index of a position, of which those below 0 count from the last one that is read, −1. Raises
    ValueError if there is no such position, or if it is padding.

    Example:
        >>> read_position(-1, torch.tensor([True, True, False]))
        1
    """
    places = read.nonzero().flatten().tolist()
    if not -len(places) <= position < len(read):
        raise value_error(NO_POSITION, index=position, count=len(read))
    if position >= 0 and not read[position]:
        raise value_error(
            "Position {index} is padding, which the attention mask hides. Choose a position that the model reads.",
            index=position,
        )
    return position if position >= 0 else places[position]


def read_keys(inputs: MapAxes, mechanism: Mechanism | FixedWeights) -> Bool[Tensor, " keys"]:
    """Returns which keys of a layer are read: by the padding in its mask, by all cells of a mask that only the model
    knows, and by the cells that are not NaN where weights alone are known."""
    if isinstance(mechanism, Mechanism):
        return _keys_of_mask(mechanism.mask, inputs)
    read = torch.zeros(inputs.keys, dtype=torch.bool)
    for head in range(inputs.heads):
        read |= visible_keys(~mechanism(inputs, heads=[head]).maps[0].isnan().cpu())
        if bool(read.all()):
            break
    return read


def read_tokens(layers: Sequence[Layer]) -> list[tuple[Bool[Tensor, " queries"], Bool[Tensor, " keys"]]]:
    """Returns which queries and keys of each layer are read. Queries of cross-attention are those of self-attention in
    the same stack, where there is some."""
    keys = [read_keys(layer.inputs, layer.mechanism) for layer in layers]
    own = {
        (layer.id.stack, layer.inputs.queries): _of_queries(layer, read)
        for layer, read in zip(layers, keys, strict=True)
        if layer.kind is not Kind.CROSS
    }
    return [
        (own.get((layer.id.stack, count), torch.ones(count, dtype=torch.bool)), read)
        for layer, read in zip(layers, keys, strict=True)
        for count in (layer.inputs.queries,)
    ]


def _of_queries(layer: Layer, keys: Tensor) -> Tensor:
    """Returns which queries are read, by the keys of the same tokens: the last ones, where queries continue a cache."""
    count = layer.inputs.queries
    return keys[-count:] if layer.kind is Kind.CAUSAL else keys[:count]


def _keys_of_mask(mask: Mask, inputs: MapAxes) -> Tensor:
    """Returns the keys that are not padding of a mask, nor hidden by a rule that only the model knows."""
    if isinstance(mask, And):
        return _keys_of_mask(mask.left, inputs) & _keys_of_mask(mask.right, inputs)
    k, zero = torch.arange(inputs.keys), torch.tensor(0)
    if isinstance(mask, Padding):
        return mask.bind(inputs.queries, inputs.keys, inputs.heads)(zero, zero, zero, k)
    if not isinstance(mask, ModelMask):
        return torch.ones_like(k, dtype=torch.bool)
    visible, sees_itself = torch.zeros_like(k, dtype=torch.bool), inputs.queries != inputs.keys
    for head in map(torch.tensor, range(inputs.heads)):
        sees_itself = sees_itself or bool(mask(zero, head, k, k).any())
        for first, last in blocks(inputs.queries):
            visible |= mask(zero, head, torch.arange(first, last)[:, None], k).any(0).cpu()
        if sees_itself and bool(visible.all()):
            break
    return visible if sees_itself else torch.ones_like(visible)
