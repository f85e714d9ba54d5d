"""Forward passes that continue one cache, as in `generate()`, as one map: a row for each query, and keys that grow."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from attnviz.analysis.head_maps import Map, head_map
from attnviz.inputs import Inputs
from attnviz.layer import Kind, Layer, LayerId
from attnviz.trace import Trace
from attnviz.tracing.cached_keys import fingerprints


@dataclass(frozen=True, eq=False)
class JoinedLayer:
    """One layer of several forward passes: what it was in each, and which of all keys it had then."""

    parts: tuple[tuple[Layer, list[int]], ...]
    query_tokens: tuple[str, ...]
    key_tokens: tuple[str, ...]

    @property
    def id(self) -> LayerId:
        return self.parts[0][0].id

    @property
    def kind(self) -> Kind:
        return self.parts[-1][0].kind  # a first query alone does not show that it is causal

    @property
    def inputs(self) -> Inputs:
        """All queries and keys, with vectors of zeros."""
        zeros = torch.zeros(self.parts[0][0].inputs.heads, max(len(self.query_tokens), len(self.key_tokens)), 1)
        query, key = zeros[:, : len(self.query_tokens)], zeros[:, : len(self.key_tokens)]
        return Inputs(query, key, key, self.query_tokens, self.key_tokens)

    def map(self, head: int, rows: slice) -> Map:
        """Returns the weights of a head for a slice of the queries; NaN also for keys that were not in the cache."""
        first, last, _ = rows.indices(len(self.query_tokens))
        whole, start = torch.full((last - first, len(self.key_tokens)), torch.nan), 0
        for layer, columns in self.parts:
            end = start + layer.inputs.queries
            if first < end and start < last:
                own = slice(max(first, start), min(last, end))
                weights = head_map(layer.inputs, layer.mechanism, head, rows=slice(own.start - start, own.stop - start))
                whole[own.start - first : own.stop - first, columns] = weights[:, : len(columns)].cpu()
            start = end
        return whole


def joined_layers(traces: Sequence[Trace]) -> list[JoinedLayer]:
    """Returns the layers of forward passes that continue one cache, the oldest first.

    Layers that ran in the first of them alone, such as those that see an image, are returned as they are. Raises
    ValueError if there is a pass that does not continue the cache of the one before.
    """
    first, *others = ({layer.id: layer for layer in trace} for trace in traces)
    layers = []
    for id, layer in first.items():
        parts = [layer, *(one[id] for one in others if id in one)]
        if 1 < len(parts) <= len(others):
            number = next(i for i, one in enumerate(others, 1) if id not in one)
            raise ValueError(f"{id} is missing in forward pass {number}. {_advice(number)}")
        layers.append(_joined(parts))
    if all(len(layer.parts) < len(traces) for layer in layers):
        raise ValueError(f"These forward passes have no layer in common. {_advice(1)}")
    return layers


def _joined(parts: Sequence[Layer]) -> JoinedLayer:
    """Returns one layer of several passes. Raises ValueError if one does not continue the cache of that before."""
    known: list[int] = []
    names: list[str] = []
    placed = []
    is_cross = parts[0].kind is Kind.CROSS
    has_free_places = not is_cross and len({layer.inputs.keys for layer in parts}) == 1 < len(parts)
    for number, layer in enumerate(parts):
        prints = _fingerprints(layer.inputs, has_free_places)
        count = 0 if number == 0 else len(prints) if is_cross else len(prints) - layer.inputs.queries
        columns = _columns(known, prints[:count])
        if columns is None:
            raise ValueError(
                f"Forward pass {number} does not continue the cache of the one before: the keys of {layer.id} are "
                f"others. {_advice(number)}"
            )
        placed.append((layer, [*columns, *range(len(known), len(known) + len(prints) - count)]))
        known += prints[count:]
        names += layer.inputs.key_tokens[count : len(prints)]
    return JoinedLayer(tuple(placed), tuple(name for one in parts for name in one.inputs.query_tokens), tuple(names))


def _columns(known: list[int], old: list[int]) -> list[int] | None:
    """Returns which of the known keys these are: the last ones, or some that cannot be others. None if they are not
    known, or if the last known one is not among them."""
    if known[len(known) - len(old) :] == old and bool(known) == bool(old):
        return [*range(len(known) - len(old), len(known))]
    kept = {*old}
    columns = [i for i, one in enumerate(known) if one in kept]
    return columns if known[-1:] == old[-1:] and [known[i] for i in columns] == old else None


def _fingerprints(inputs: Inputs, has_free_places: bool) -> list[int]:
    """Returns a number for each key, without the free places at the end of a cache, which are zero."""
    keys = inputs.keys
    if has_free_places:
        is_filled = (inputs.key != 0).any(-1).any(0) | (inputs.value != 0).any(-1).any(0)
        keys = int(is_filled.nonzero().max()) + 1 if bool(is_filled.any()) else keys
    prints: list[int] = fingerprints(inputs.key[None, :, :keys])[0].tolist()
    return prints


def _advice(number: int) -> str:
    return f"Show passes of one cache, such as attnviz.show(traces[:{number}]), or one: attnviz.show(traces[0])."
