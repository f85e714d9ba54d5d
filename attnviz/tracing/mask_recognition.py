"""Recognition of a model's mask as a mask of the catalogue."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from attnviz.masks import Band, Causal, Chunked, Full, Mask, Padding, PrefixLM, SlidingWindow
from attnviz.mechanism import blocks

AllowedRows = Callable[[int, int], Tensor]  # which keys the queries from one to another see, as (rows, keys)
MAX_CACHED_CELLS = 1 << 25  # cells, so that those of 4,096 tokens are computed once


def recognize_mask(allowed: AllowedRows, queries: int, keys: int) -> Mask | None:
    """Returns the mask of the catalogue that allows exactly these cells, or None; all cells are compared, in blocks
    of rows."""
    if queries * keys <= MAX_CACHED_CELLS:
        cells = torch.cat([allowed(*part) for part in blocks(queries)])
        return _first_match(lambda first, last: cells[first:last], queries, keys)
    return _first_match(allowed, queries, keys)


def _first_match(allowed: AllowedRows, queries: int, keys: int) -> Mask | None:
    k = torch.arange(keys)
    real, ahead, back = torch.zeros(keys, dtype=torch.bool), -queries, -keys
    for first, last in blocks(queries):
        block, distance = allowed(first, last), k - torch.arange(first, last)[:, None]
        real |= block.any(0)
        ahead = max(ahead, int(distance.where(block, -queries).max()))
        back = max(back, -int(distance.where(block, keys).min()))
    padding = padding_mask(real)
    for mask in _candidates(ahead, back, prefix=int(allowed(0, 1).sum())):
        whole = mask if padding is None else padding if mask == Full() else mask & padding
        if all(agrees(whole, allowed, *part, keys) for part in ((0, 1), (queries - 1, queries), *blocks(queries))):
            return whole
    return None


def padding_mask(real: Tensor) -> Padding | None:
    """Returns the mask that hides the keys that are not real, or None if all are real."""
    count = int(real.sum())
    if count == len(real):
        return None
    return Padding(count) if bool(real[:count].all()) else Padding(tuple(real.tolist()))


def _candidates(ahead: int, back: int, prefix: int) -> Iterator[Mask]:
    if ahead <= 0:
        yield Causal()
        if back >= 0:
            yield SlidingWindow(back + 1)
            yield Chunked(back + 1)
    yield Full()
    if ahead > 0:
        yield Band(ahead)
        yield PrefixLM(prefix)
    if back > 0:
        yield Band(back)


def agrees(mask: Mask, allowed: AllowedRows, first: int, last: int, keys: int) -> bool:
    q, k, zero = torch.arange(first, last)[:, None], torch.arange(keys), torch.tensor(0)
    return torch.equal(mask(zero, zero, q, k).expand(last - first, keys), allowed(first, last))
