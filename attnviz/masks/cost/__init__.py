"""The cost of a mask: allowed pairs, blocks and cached keys, computed from its rule without materializing the mask.

A rule is brought into normal form (normal_form.py). The monotonicity of its terms along the keys (monotonicity.py)
splits rows into allowed intervals (row_intervals.py), which are counted (counting.py).
"""

from dataclasses import dataclass
from math import isqrt

import numpy as np
import torch

from attnviz.masks.cost.counting import Counts
from attnviz.masks.cost.normal_form import UnstructuredRule
from attnviz.masks.cost.row_intervals import RowIntervals
from attnviz.masks.mask import Mask, rule, terms_in
from attnviz.masks.terms import count_operations

MOST_PAIRS = 16_384**2  # that are counted one by one, if a rule has no structure
MOST_STEPS = 1_200_000_000  # operations of a rule, at all those pairs: about 5 seconds
MOST_BLOCKS = 2**24
PATIENCE = 2**28  # steps that are spent on splitting rows before a rule counts as one without structure


@dataclass(frozen=True)
class Cost:
    """The cost of one head of a mask. All numbers are exact.

    `cached` is the largest number of keys that a decoder holds at once: the maximum over times t of the number of keys
    j ≤ t that some query i ≥ t may attend to. A key counts from its own time to that of the last such query. None if
    the numbers of queries and keys differ.
    """

    queries: int
    keys: int
    kept: int  # pairs that are allowed
    most: int  # keys that one query sees, at most
    empty: int  # queries that see nothing
    cached: int | None
    block: int  # the side of a block
    blocks: int
    blocks_kept: int  # blocks with a pair that is allowed

    @property
    def density(self) -> float:
        """The share of pairs that are allowed."""
        return self.kept / (self.queries * self.keys)

    @property
    def blocks_density(self) -> float:
        """The share of blocks with a pair that is allowed."""
        return self.blocks_kept / self.blocks


def cost(mask: Mask, queries: int, keys: int, *, head: int = 0, block: int = 128) -> Cost:
    """Returns the cost of one head of a mask, with blocks of `block` × `block` pairs (128 in FlexAttention).

    Rules are counted symbolically if their terms rise, fall or repeat along the keys, as those of the catalogue do, and
    pair by pair otherwise. Raises ValueError if a rule that is counted pair by pair has more than 16,384 × 16,384
    pairs, or its operations at all pairs are more than MOST_STEPS.

    Example:
        >>> from attnviz.masks import SlidingWindow
        >>> window = cost(SlidingWindow(512), 65_536, 65_536)
        >>> window.kept, window.cached
        (33423616, 512)
    """
    if min(queries, keys, block) < 1 or head < 0:
        raise ValueError(
            "A cost needs at least 1 query, 1 key, blocks of 1 and a head counted from 0; it got "
            f"{queries} queries, {keys} keys, blocks of {block} and head {head}."
        )
    if (blocks := -(-queries // block) * -(-keys // block)) > MOST_BLOCKS:
        raise ValueError(f"{blocks:,} blocks are too many to count. Take larger ones than {block} × {block}.")
    pairs, operations = queries * keys, _operations(mask, queries, keys)
    can_count_pairs = pairs <= MOST_PAIRS and pairs * operations <= MOST_STEPS
    # Counting pairs one by one, where that is allowed, is soon the quicker way.
    patience = min(PATIENCE, pairs * operations // 16) if can_count_pairs else PATIENCE
    try:
        counts = RowIntervals(mask, queries, keys, head, patience).counts(block)
    except UnstructuredRule as reason:
        if not can_count_pairs:
            most = isqrt(min(MOST_PAIRS, MOST_STEPS // operations))
            raise ValueError(
                f"The rule of this mask {reason}, so its pairs can only be counted one by one, "
                f"with {operations:,} operation{'s' * (operations > 1)} each. {queries:,} × {keys:,} are too many for "
                f"that. Take at most {most:,} × {most:,}."
            ) from None
        counts = _count_pairs(mask, queries, keys, head, block)
    return Cost(
        queries=queries,
        keys=keys,
        kept=int(counts.row_counts.sum()),
        most=int(counts.row_counts.max()),
        empty=int((counts.row_counts == 0).sum()),
        cached=counts.peak_cache() if queries == keys else None,
        block=block,
        blocks=blocks,
        blocks_kept=int(counts.occupied.sum()),
    )


def _operations(mask: Mask, queries: int, keys: int) -> int:
    """Returns the operations of a rule for each pair; 1 if it cannot be written down."""
    try:
        return 1 + count_operations(terms_in(rule(mask, queries, keys)))
    except (TypeError, AttributeError, IndexError):
        return 1


def _count_pairs(mask: Mask, queries: int, keys: int, head: int, block: int) -> Counts:
    """Counts any mask pair by pair, in blocks of rows."""
    bound, key = mask.bind(queries, keys, head + 1), torch.arange(keys)
    row_counts, last = np.zeros(queries, int), np.full(keys, -1)
    occupied = np.zeros((-(-queries // block), -(-keys // block)), bool)
    step = max(1, 2**16 // keys)  # what fits in the cache of a core
    for first in range(0, queries, step):
        query = np.arange(first, min(first + step, queries))
        positions = torch.tensor(0), torch.tensor(head), torch.as_tensor(query)[:, None], key
        allowed = bound(*positions).expand(query.size, keys).numpy()
        row_counts[query] = allowed.sum(1)
        last = np.where(allowed.any(0), query[-1] - allowed[::-1].argmax(0), last)
        np.logical_or.at(occupied, query // block, np.logical_or.reduceat(allowed, range(0, keys, block), axis=1))
    return Counts(row_counts, occupied, last)
