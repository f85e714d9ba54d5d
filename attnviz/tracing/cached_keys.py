"""Which tokens of a text the keys in a cache are.

A key is recognized by its numbers and those of its value: so it keeps its token where a cache is cropped, reordered or
copied, or where keys before it are evicted, and one that was computed elsewhere, or changed since, has none.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

import torch
from torch import Tensor

# The token ids of the keys that a layer of a cache was given, by their fingerprints and positions in the text.
Entries: TypeAlias = dict[int, dict[int, int | None]]


@dataclass(frozen=True, eq=False)
class CachedKeys:
    """The keys that an attention gets from a cache, of one sequence. None is what is not known."""

    positions: tuple[int | None, ...]  # in the text
    ids: tuple[int | None, ...]
    own: range  # the positions of the queries
    own_ids: tuple[int | None, ...]
    key: Tensor  # (sequences, heads, keys, width)

    @classmethod
    def unknown(cls, queries: int, keys: int, past: int) -> "CachedKeys":
        return cls((None,) * keys, (None,) * keys, range(past, past + queries), (None,) * queries, torch.empty(0))


def fingerprints(*vectors: Tensor) -> Tensor:
    """Returns a number for each key (sequences, keys) of vectors (sequences, heads, keys, width), which is equal for
    equal vectors, and with a probability of 2⁻³² or less for others: a linear hash of their bits."""
    total = torch.zeros((), dtype=torch.long)
    for number, one in enumerate(vectors):
        factors = _factors(number, one.shape[1], one.shape[3]).to(one.device)
        for head, head_factors in zip(one.detach().unbind(1), factors, strict=True):
            bits = (head.float() + 0.0).view(torch.int32)  # −0 becomes 0
            total = total + (bits * head_factors).sum(-1).cpu()
    return total


@cache
def _factors(number: int, heads: int, width: int) -> Tensor:
    generator = torch.Generator().manual_seed(number)
    return torch.randint(-(2**62), 2**62, (heads, width), generator=generator) * 2 + 1


def recognize(
    entries: Entries,
    past: int,
    new: tuple[Tensor, Tensor],
    cached: tuple[Tensor, Tensor],
    sequence: int,
    ids: Tensor | None,
) -> CachedKeys:
    """Returns which tokens the keys and values are that a layer of a cache holds of one sequence, and adds the new ones
    to its entries.

    `past` is the number of tokens that the cache has read before the new ones, whose `ids` are (sequences, tokens).
    Shapes of both keys and values: (sequences, heads, tokens, width).
    """
    if past == 0:
        entries.clear()
    new_prints = fingerprints(*new).tolist()
    [prints] = fingerprints(*(one[sequence : sequence + 1] for one in cached)).tolist()
    own, count = new_prints[sequence], len(new_prints[sequence])
    # A cache with free places has them after the new keys, and another one the new keys at its end.
    first = next((i for i in (past, len(prints) - count) if prints[i : i + count] == own), len(prints))
    positions = _positions(entries, prints[:first], past - first)
    start = max([past, *(position + 1 for position in positions if position is not None)])
    is_known = ids is not None and ids.shape == (len(new_prints), count)
    new_ids = ids.tolist() if ids is not None and is_known else [[None] * count] * len(new_prints)
    for row_prints, row_ids in zip(new_prints, new_ids, strict=True):
        for position, (one, id) in enumerate(zip(row_prints, row_ids, strict=True), start):
            by_position = entries.setdefault(one, {})
            by_position[position] = id if by_position.get(position, id) == id else None
    if first == len(prints):  # the new ones are somewhere among the others
        positions = _positions(entries, prints, 0)
    positions += range(start, start + len(prints) - len(positions))
    key_ids = [_id(entries.get(one, {})) for one in prints]
    if first < len(prints):
        key_ids[first:] = new_ids[sequence] + [None] * (len(prints) - first - count)
    own_ids = tuple(new_ids[sequence])
    return CachedKeys(tuple(positions), tuple(key_ids), range(start, start + count), own_ids, cached[0])


def _positions(entries: Entries, prints: Sequence[int], offset: int) -> list[int | None]:
    """Returns the positions of keys in the text: one after the other, or else those of keys that have only one. Keys
    that are equal though their tokens are not have none."""
    places = [entries.get(one, {}) for one in prints]
    places = [one if len({*one.values()}) == 1 else {} for one in places]
    if all(position in one for position, one in enumerate(places, offset)):
        return [*range(offset, offset + len(prints))]
    return [next(iter(one)) if len(one) == 1 else None for one in places]


def _id(by_position: dict[int, int | None]) -> int | None:
    """Returns the token id of a key, if it can only be one."""
    ids = {*by_position.values()}
    return ids.pop() if len(ids) == 1 else None
