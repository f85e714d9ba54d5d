"""The cost of a mask: allowed pairs, blocks and cached keys, computed from its rule without materializing the mask.

A rule is brought into normal form (normal_form.py). The monotonicity of its terms along the keys (monotonicity.py)
splits rows into allowed intervals (row_intervals.py), which are counted (counting.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from math import isqrt

import numpy as np
import torch

from attnviz.base.formatting import grouped
from attnviz.base.language import plural, value_error
from attnviz.masks.cost.counting import Counts, cache_sizes
from attnviz.masks.cost.heads import heads_by_rule
from attnviz.masks.cost.normal_form import UnstructuredRule
from attnviz.masks.cost.row_intervals import RowIntervals, StepBudget
from attnviz.masks.mask import Mask, rule, terms_in
from attnviz.masks.terms import Lookup, Term

# Limits of one call, for all heads together. A step is about half a nanosecond.
MOST_STEPS = 3_000_000_000
MOST_PAIR_STEPS = 3_000_000_000  # of them, for counting pairs one by one, if a rule has no structure
MOST_PAIRS = 16_384**2
MOST_BLOCKS = 2**24
STEPS_OF_A_PLACE = 400  # for each query, each key and, as they take less, each 8 blocks, in each rule
# For each pair that is counted: to count it, and what its rule computes; a comparison has two terms, a step each.
STEPS_OF_A_PAIR, STEPS_OF_A_DIVISION, STEPS_OF_ARITHMETIC = 8, 5, 2
SUMMED = ("kept", "empty", "blocks", "blocks_kept", "blocks_full")  # over the heads of a layer


@dataclass(frozen=True)
class Cost:
    """The cost of one head of a mask. All numbers are exact.

    `cached` is the largest number of keys that a decoder holds at once: the maximum over times t of the number of keys
    j ≤ t that some query i ≥ t may attend to. A key counts from its own time to that of the last such query. None if
    the numbers of queries and keys differ.

    Blocks are counted as FlexAttention counts them: a full block allows all of its pairs, so that the mask is not
    evaluated in it; a partial block allows some, and so does a block that reaches over an edge.
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
    blocks_full: int  # blocks whose pairs are all allowed

    @property
    def blocks_partial(self) -> int:
        """The blocks with some allowed and some masked pairs, in which a kernel evaluates the mask."""
        return self.blocks_kept - self.blocks_full

    @property
    def pairs_computed(self) -> int:
        """The pairs in the blocks that a block-sparse kernel computes."""
        return self.blocks_kept * self.block**2


@dataclass(frozen=True)
class RuleCost:
    """The cost of a rule in one head, and the heads that follow this rule."""

    heads: tuple[int, ...]
    cost: Cost


@dataclass(frozen=True)
class LayerCost(Cost):
    """The cost of all heads of a layer, which may follow several rules. All numbers are sums over heads, but `most`.

    `cached` is the largest number of keys that a decoder holds at once in all kv heads together. A kv head holds a key
    until no query head that shares it attends to the key any more. None if the numbers of queries and keys differ.
    """

    rules: tuple[RuleCost, ...]

    @property
    def heads(self) -> int:
        """The number of query heads."""
        return sum(len(rule.heads) for rule in self.rules)

    @property
    def pairs(self) -> int:
        """All pairs of queries and keys."""
        return self.heads * self.queries * self.keys


def attention_flops(pairs: int, d_k: int, d_v: int) -> int:
    """Returns the floating-point operations of query · key and weights · value for `pairs` pairs: 2 · (d_k + d_v)
    each, a multiplication and an addition for each number of a vector. The softmax is not counted, as usual.

    Example:
        >>> attention_flops(1024 * 1024, 64, 64) == 2 * 2 * 64 * 1024 * 1024
        True
    """
    return 2 * (d_k + d_v) * pairs


def cost(mask: Mask, queries: int, keys: int, *, head: int = 0, block: int = 128) -> Cost:
    """Returns the cost of one head of a mask, with blocks of `block` × `block` pairs (128 in FlexAttention).

    Rules are counted symbolically if their terms rise, fall or repeat along the keys, as those of the catalogue do, and
    pair by pair otherwise. Raises ValueError if a rule that is counted pair by pair has more than 16,384 × 16,384
    pairs, or takes more than MOST_PAIR_STEPS.

    Example:
        >>> from attnviz.masks import SlidingWindow
        >>> window = cost(SlidingWindow(512), 65_536, 65_536)
        >>> window.kept, window.cached
        (33423616, 512)
    """
    _check_sizes(queries, keys, block, head)
    counter = _Counter(mask, queries, keys, block, 1)
    return counter.cost(counter.counts(head))


def layer_cost(
    mask: Mask, queries: int, keys: int, *, heads: int, kv_heads: int | None = None, block: int = 128
) -> LayerCost:
    """Returns the cost of all `heads` of a mask; each `heads / kv_heads` in a row share one kv head.

    Heads that share a rule are counted once. Raises ValueError as `cost` does, if the heads cannot share the kv heads
    evenly, or if they follow too many rules to count them at this length.

    Example:
        >>> from attnviz.masks import parse
        >>> local_and_global = layer_cost(parse("causal & (q - k < 512 | h % 2 == 0)"), 4096, 4096, heads=12)
        >>> [(rule.heads, rule.cost.cached) for rule in local_and_global.rules]
        [((0, 2, 4, 6, 8, 10), 4096), ((1, 3, 5, 7, 9, 11), 512)]
        >>> local_and_global.cached == 6 * 4096 + 6 * 512
        True
    """
    kv_heads = heads if kv_heads is None else kv_heads
    if heads < 1 or kv_heads < 1 or heads % kv_heads:
        raise value_error(
            "The cost of a layer needs at least 1 head, and kv heads that divide the heads evenly; it got {heads} "
            "heads and {kv_heads} kv heads.",
            heads=heads,
            kv_heads=kv_heads,
        )
    _check_sizes(queries, keys, block)
    groups = heads_by_rule(mask, queries, keys, heads)
    counter = _Counter(mask, queries, keys, block, len(groups))
    rules: list[RuleCost] = []
    last: dict[int, np.ndarray] = {}
    for group in groups:
        counts = counter.counts(group[0])
        rules.append(RuleCost(group, counter.cost(counts)))
        last |= dict.fromkeys(group, counts.last)
    cached = None
    if queries == keys:
        shared = [range(first, first + heads // kv_heads) for first in range(0, heads, heads // kv_heads)]
        sizes = [cache_sizes(reduce(np.maximum, (last[head] for head in each))) for each in shared]
        cached = int(np.sum(sizes, axis=0).max())
    summed = {name: sum(len(one.heads) * getattr(one.cost, name) for one in rules) for name in SUMMED}
    most = max(one.cost.most for one in rules)
    return LayerCost(queries, keys, most=most, cached=cached, block=block, rules=tuple(rules), **summed)


def _check_sizes(queries: int, keys: int, block: int, head: int = 0) -> None:
    if min(queries, keys, block) < 1 or head < 0:
        raise value_error(
            "A cost needs at least 1 query, 1 key, blocks of 1 and a head counted from 0; it got {queries} "
            "queries, {keys} keys, blocks of {block} and head {head}.",
            queries=queries,
            keys=keys,
            block=block,
            head=head,
        )
    if (blocks := -(-queries // block) * -(-keys // block)) > MOST_BLOCKS:
        raise value_error(
            "{blocks} blocks are too many to count. Use larger ones than {block} × {block}.",
            blocks=grouped(blocks),
            block=block,
        )


class _Counter:
    """Counts heads of a mask, which follow `rules` different rules, within one limit for all of them."""

    def __init__(self, mask: Mask, queries: int, keys: int, block: int, rules: int) -> None:
        self.mask, self.queries, self.keys, self.block, self.rules = mask, queries, keys, block, rules
        self.blocks = -(-queries // block) * -(-keys // block)
        terms = _terms(mask, queries, keys)
        places = (queries + keys) * (STEPS_OF_A_PLACE + STEPS_OF_A_DIVISION * len(terms))
        self.patience = MOST_STEPS - rules * (places + self.blocks // 8 * STEPS_OF_A_PLACE)
        if rules > 1 and self.patience < 0:
            raise value_error(
                "The heads of this mask follow {rules} rules. {queries} × {keys} in blocks of {block} × {block} "
                "are too many to count for each of them. Use fewer tokens, or larger blocks.",
                rules=rules,
                queries=grouped(queries),
                keys=grouped(keys),
                block=block,
            )
        pairs, self.pair_steps = queries * keys, _pair_steps(terms)
        steps = pairs * self.pair_steps
        self.can_count_pairs = pairs <= MOST_PAIRS and steps * rules <= MOST_PAIR_STEPS
        self.most_patience = MOST_STEPS
        if self.can_count_pairs:  # which is soon the quicker way
            self.patience -= steps * rules
            self.most_patience = steps

    def counts(self, head: int) -> Counts:
        """Returns the counts of one head. Raises ValueError if its pairs can only be counted one by one, and are too
        many for that."""
        budget = StepBudget(min(self.patience, self.most_patience))
        try:
            return RowIntervals(self.mask, self.queries, self.keys, head, budget).counts(self.block)
        except UnstructuredRule as reason:
            if not self.can_count_pairs:
                steps = self.pair_steps * self.rules
                most = isqrt(min(MOST_PAIRS, MOST_PAIR_STEPS // steps))
                values = {
                    "reason": reason,
                    "steps": grouped(steps),
                    "queries": grouped(self.queries),
                    "keys": grouped(self.keys),
                    "most": grouped(most),
                }
                sentence = plural(
                    "The rule of this mask {reason}, so its pairs can only be counted one by one, with {steps} steps "
                    "each. {queries} × {keys} are too many for that. Use at most {most} × {most}.",
                    "The rule of this mask {reason}, so its pairs can only be counted one by one, with {steps} steps "
                    "each, in {rules} rules of heads. {queries} × {keys} are too many for that. Use at most {most} × "
                    "{most}.",
                    self.rules,
                    rules=self.rules,
                    **values,
                )
                raise ValueError(sentence) from None
            return _count_pairs(self.mask, self.queries, self.keys, head, self.block)
        finally:
            self.patience -= budget.spent

    def cost(self, counts: Counts) -> Cost:
        """Returns the cost of a head with these counts."""
        return Cost(
            queries=self.queries,
            keys=self.keys,
            kept=int(counts.row_counts.sum()),
            most=int(counts.row_counts.max()),
            empty=int((counts.row_counts == 0).sum()),
            cached=int(cache_sizes(counts.last).max()) if self.queries == self.keys else None,
            block=self.block,
            blocks=self.blocks,
            blocks_kept=int(counts.occupied.sum()),
            blocks_full=counts.full_blocks(self.queries, self.keys, self.block),
        )


def _terms(mask: Mask, queries: int, keys: int) -> list[Term]:
    """Returns all terms of a rule; none of a rule that cannot be written down."""
    try:
        return list(terms_in(rule(mask, queries, keys)))
    except (TypeError, AttributeError, IndexError):
        return []


def _pair_steps(terms: Sequence[Term]) -> int:
    """Returns the steps of counting a pair one by one, by a rule of these terms."""
    computed = [term for term in terms if term.parts() and "k" in term.names]
    divisions = sum(isinstance(term, Lookup) or getattr(term, "sign", "") in ("//", "%") for term in computed)
    arithmetic = divisions * STEPS_OF_A_DIVISION + (len(computed) - divisions) * STEPS_OF_ARITHMETIC
    return STEPS_OF_A_PAIR + arithmetic + sum(not term.parts() for term in terms) // 2


def _count_pairs(mask: Mask, queries: int, keys: int, head: int, block: int) -> Counts:
    """Counts any mask pair by pair, in blocks of rows."""
    bound, key = mask.bind(queries, keys, head + 1), torch.arange(keys)
    row_counts, last = np.zeros(queries, int), np.full(keys, -1)
    occupied, masked = (np.zeros((-(-queries // block), -(-keys // block)), bool) for _ in range(2))
    # What fits in the cache of a core, and is too little for torch to share it out among threads, which wait for each
    # other at every operation: beside other processes, that takes ten times as long.
    step = max(1, (2**15 - 1) // keys)
    for first in range(0, queries, step):
        query = np.arange(first, min(first + step, queries))
        positions = torch.tensor(0), torch.tensor(head), torch.as_tensor(query)[:, None], key
        allowed = bound(*positions).expand(query.size, keys).numpy()
        row_counts[query] = allowed.sum(1)
        last = np.where(allowed.any(0), query[-1] - allowed[::-1].argmax(0), last)
        for blocks, holds in ((occupied, allowed), (masked, ~allowed)):
            np.logical_or.at(blocks, query // block, np.logical_or.reduceat(holds, range(0, keys, block), axis=1))
    return Counts(row_counts, occupied, masked, last)
