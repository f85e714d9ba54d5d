"""The keys that blocks of queries may attend to: from the rule of a mask where it has intervals, else pair by pair."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnviz.base.cached_property import cached_property
from attnviz.masks.cost.normal_form import UnstructuredRule
from attnviz.masks.cost.row_intervals import STEPS_OF_A_PIECE, RowIntervals, StepBudget, TooManyPieces
from attnviz.masks.mask import Mask

PATIENCE = 3_000_000_000  # steps that are spent on finding intervals, at most
ROWS = 1 << 14  # rows whose intervals are found at a time
MOST_INTERVALS = 1 << 23
MOST_PAIRS = 1 << 22  # pairs that a mask is evaluated at in one call
FARTHEST = 1 << 22  # keys: single precision has halves up to here


class KeyCounts(NamedTuple):
    """How many of some queries may attend to each key from a first one on; to the other keys none may."""

    first: int
    queries: Int[Tensor, " keys"]

    def lookup(self, keys: Int[Tensor, "*keys"]) -> Int[Tensor, "*keys"]:
        """Returns how many queries may attend to each of these keys; 0 for −1."""
        if not len(self.queries):
            return torch.zeros_like(keys)
        index = keys - self.first
        inside = (index >= 0) & (index < len(self.queries)) & (keys >= 0)
        return torch.where(inside, self.queries[index.clamp(0, len(self.queries) - 1)], 0)


@dataclass(frozen=True, eq=False)
class AllowedKeys:
    """The keys that the queries of one head may attend to; `mask` is bound to the numbers of queries and keys."""

    mask: Mask
    keys: int
    head: int
    # The queries whose rows differ from the row before, and the query, start and stop of each of their intervals.
    intervals: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None

    @cached_property
    def has_one_interval_a_row(self) -> bool:
        """Whether two comparisons of small numbers say what a query may attend to."""
        return self.intervals is not None and np.array_equal(*self.intervals[:2])

    def pairs(self, queries: Int[Tensor, "..."], keys: Int[Tensor, "..."]) -> Bool[Tensor, "..."]:
        """Returns whether each of these pairs of a query and a key is allowed."""
        zero = queries.new_zeros(())
        return self.mask(zero, zero + self.head, queries, keys)

    def hide(
        self, scores: Float[Tensor, "rows keys"], queries: Int[Tensor, " rows"], keys: Int[Tensor, " keys"]
    ) -> None:
        """Sets the scores of these queries and keys that are not allowed to −∞."""
        if self.intervals is None or not self.has_one_interval_a_row:
            scores.masked_fill_(~self.pairs(queries[:, None], keys).to(scores.device), -torch.inf)
            return
        rows, _, start, stop = self.intervals
        index = np.searchsorted(rows, queries.numpy(), "right") - 1
        low, high = int(keys.min()), int(keys.max())
        key = (keys - low).to(scores)
        # A distance times ∞ is ±∞: on a CPU that takes a fifth of the time of comparing and filling.
        if int(start[index].max()) > low:
            first = torch.from_numpy((start[index] - low).clip(max=FARTHEST)).to(scores)
            torch.minimum(scores, (key - (first - 0.5)[:, None]).mul_(torch.inf), out=scores)
        if int(stop[index].min()) <= high:
            end = torch.from_numpy((stop[index] - low).clip(min=-FARTHEST)).to(scores)
            torch.minimum(scores, ((end - 0.5)[:, None] - key).mul_(torch.inf), out=scores)

    def counts(self, queries: Int[Tensor, " queries"]) -> KeyCounts:
        """Returns how many of these queries, which must be in order, may attend to each key."""
        if self.intervals is None:
            return KeyCounts(0, self._counts_by_pairs(queries))
        start, stop, weight = self._intervals_of(queries)
        if not len(start):
            return KeyCounts(0, torch.zeros(0, dtype=torch.int64))
        left, right = int(start.min()), int(stop.max())
        steps = np.zeros(right - left + 1, np.int64)
        np.add.at(steps, start - left, weight)
        np.subtract.at(steps, stop - left, weight)
        return KeyCounts(left, torch.from_numpy(steps.cumsum()[:-1]))

    def group_sums(
        self, queries: Int[Tensor, " queries"], keys: Int[Tensor, " keys"], starts: Int[Tensor, " edges"]
    ) -> Int[Tensor, " groups"]:
        """Returns how many pairs of these queries, in order, and of each group of keys are allowed.

        Group i has the keys from index starts[i] to starts[i + 1].
        """
        first, stop = int(starts[0]), int(starts[-1])
        sums = torch.nn.functional.pad(self.counts(queries).lookup(keys[first:stop]).cumsum(0), (1, 0))
        return sums[starts - first].diff()

    def _intervals_of(self, queries: Int[Tensor, " queries"]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns the start and stop of the intervals of these queries, and how many queries have each."""
        assert self.intervals is not None
        rows, owner, start, stop = self.intervals
        first, last = (int(np.searchsorted(rows, int(queries[i]), "right")) - 1 for i in (0, -1))
        count = np.diff(np.searchsorted(queries.numpy(), np.append(rows[first : last + 1], int(queries[-1]) + 1)))
        count[0] += int((queries < int(rows[first])).sum())
        part = slice(*np.searchsorted(owner, (rows[first], rows[last] + 1)))
        return start[part], stop[part], count[np.searchsorted(rows[first : last + 1], owner[part])]

    def _counts_by_pairs(self, queries: Int[Tensor, " queries"]) -> Int[Tensor, " keys"]:
        keys, rows = torch.arange(self.keys), max(1, MOST_PAIRS // self.keys)
        parts = (self.pairs(part[:, None], keys).expand(len(part), self.keys).sum(0) for part in queries.split(rows))
        return torch.stack(list(parts)).sum(0)


def allowed_keys(mask: Mask, queries: int, keys: int, head: int, heads: int) -> AllowedKeys:
    """Returns the keys that the queries of one of `heads` heads may attend to."""
    return AllowedKeys(mask.bind(queries, keys, heads), keys, head, _intervals(mask, queries, keys, head))


def _intervals(
    mask: Mask, queries: int, keys: int, head: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None:
    """Returns the distinct rows of a mask and their intervals; None if its rule has none, or too many."""
    try:
        split = RowIntervals(mask, queries, keys, head, StepBudget(min(queries * keys * STEPS_OF_A_PIECE[0], PATIENCE)))
        rows = split.distinct_rows()
        parts: list[np.ndarray] = []
        for first in range(0, len(rows), ROWS):
            allowed, _ = split.pieces(rows[first : first + ROWS])
            owner, start, stop, low, high = allowed
            if (low > 0).any() or (high < split.period).any() or sum(part.shape[1] for part in parts) > MOST_INTERVALS:
                return None
            order = np.argsort(owner, kind="stable")
            parts.append(np.stack([owner, start, stop])[:, order])
    except (UnstructuredRule, TooManyPieces):
        return None
    owner, start, stop = np.concatenate(parts, axis=1)
    return rows, owner, start, stop
