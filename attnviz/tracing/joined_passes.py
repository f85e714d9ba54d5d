"""Forward passes that continue one cache, as in `generate()`, as one map: a row for each query, and keys that grow."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float

from attnviz.inputs import MapAxes, PatchGrid
from attnviz.layer import FixedWeights, Kind, Layer
from attnviz.trace import Trace
from attnviz.tracing.cached_keys import fingerprints


@dataclass(frozen=True, eq=False)
class JoinedWeights(MapAxes):
    """The weights of one layer in several forward passes, computed from its layers when they are drawn."""

    parts: tuple[tuple[Layer, list[int]], ...]  # the layer in each pass, and which of all keys it had then
    query_tokens: tuple[str, ...]
    key_tokens: tuple[str, ...]
    special_queries: tuple[int, ...] = ()
    special_keys: tuple[int, ...] = ()
    query_ids: tuple[int, ...] = ()
    key_ids: tuple[int, ...] = ()
    query_grids: tuple[PatchGrid, ...] = ()
    key_grids: tuple[PatchGrid, ...] = ()

    @property
    def heads(self) -> int:
        return self.parts[0][0].inputs.heads

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    def maps(self, heads: slice | list[int], rows: slice | list[int]) -> Float[torch.Tensor, "heads rows keys"]:
        """Returns the weights of some heads and queries; NaN also for keys that were not in the cache."""
        positions = torch.arange(self.queries)[rows]
        start, blocks, order = 0, [], []
        for layer, columns in self.parts:
            own = ((positions >= start) & (positions < start + layer.inputs.queries)).nonzero()[:, 0]
            if len(own):
                weights = layer.maps(heads, (positions[own] - start).tolist())[..., : len(columns)]
                blocks.append(weights.new_full((*weights.shape[:2], self.keys), torch.nan, device="cpu"))
                blocks[-1][..., columns] = weights.cpu()
                order.append(own)
            start += layer.inputs.queries
        return torch.cat(blocks, 1)[:, torch.cat(order).argsort()]


def joined_layers(traces: Sequence[Trace]) -> list[Layer]:
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
        layers.append(_joined(parts) if others and len(parts) > 1 else layer)
    if not any(all(id in one for one in others) for id in first):
        raise ValueError(f"These forward passes have no layer in common. {_advice(1)}")
    return layers


def _joined(parts: Sequence[Layer]) -> Layer:
    """Returns one layer of several passes. Raises ValueError if one does not continue the cache of that before."""
    known: list[int] = []
    names: list[str] = []
    placed = []
    is_cross = parts[0].kind is Kind.CROSS
    has_free_places = not is_cross and len({layer.inputs.keys for layer in parts}) == 1 < len(parts)
    for number, layer in enumerate(parts):
        prints = _fingerprints(layer, has_free_places)
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
    queries = tuple(name for one in parts for name in one.inputs.query_tokens)
    kind = parts[-1].kind  # a first query alone does not show that it is causal
    return Layer(parts[0].id, kind, JoinedWeights(tuple(placed), queries, tuple(names)), FixedWeights())


def _columns(known: list[int], old: list[int]) -> list[int] | None:
    """Returns which of the known keys these are: the last ones, or some that cannot be others. None if they are not
    known, or if the last known one is not among them."""
    if known[len(known) - len(old) :] == old and bool(known) == bool(old):
        return [*range(len(known) - len(old), len(known))]
    kept = {*old}
    columns = [i for i, one in enumerate(known) if one in kept]
    return columns if known[-1:] == old[-1:] and [known[i] for i in columns] == old else None


def _fingerprints(layer: Layer, has_free_places: bool) -> list[int]:
    """Returns a number for each key, without the free places at the end of a cache, which are zero: of weights alone
    the ids of the tokens. Raises ValueError if these are not known."""
    if isinstance(layer.mechanism, FixedWeights):
        if not layer.inputs.key_ids:
            raise ValueError(
                f"Only the weights of {layer.id} are known, and not of which tokens: these passes may be of several "
                "caches. Show one: attnviz.show(traces[0])."
            )
        return [*layer.inputs.key_ids]
    inputs, keys = layer.inputs.vectors, layer.inputs.keys
    if has_free_places:
        is_filled = (inputs.key != 0).any(-1).any(0) | (inputs.value != 0).any(-1).any(0)
        keys = int(is_filled.nonzero().max()) + 1 if bool(is_filled.any()) else keys
    prints: list[int] = fingerprints(inputs.key[None, :, :keys])[0].tolist()
    return prints


def _advice(number: int) -> str:
    return f"Show passes of one cache, such as attnviz.show(traces[:{number}]), or one: attnviz.show(traces[0])."
