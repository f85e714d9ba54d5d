"""The cost of both masks, for this text and for longer ones."""

from collections.abc import Iterator
from functools import partial

from attnviz.base.formatting import byte_size, flop_count, grouped, percent
from attnviz.base.language import N_, _, plural
from attnviz.masks import Full
from attnviz.masks.cost import LayerCost, RuleCost, attention_flops, layer_cost
from attnviz.page.blocks import Block, Caption, Control, Note, Row, Table
from attnviz.page.result_cache import result_cache
from attnviz.pages.masks.mask_pair import MaskPair
from attnviz.pages.masks.state import SIDES, MasksState

FULL = N_("Full")
MOST_LISTED = 6  # heads of a rule, and rules


def cost_blocks(state: MasksState, pair: MaskPair) -> Iterator[Block]:
    """Yields what each mask computes in all heads, and what a decoder has to cache."""
    inputs, (queries, keys), block, number_bytes = pair.inputs, state.tokens, state.block, state.cache_type
    fields = MasksState.tokens, MasksState.block, MasksState.cache_type
    yield Row([Control(field, state) for field in fields], "mask-cost")
    costs: dict[str, LayerCost] = {}
    masks = dict(zip((*SIDES, FULL), (*(each.mask for each in pair.mechanisms), Full()), strict=True))
    sizes = {"heads": inputs.heads, "kv_heads": inputs.key.shape[0], "block": block}
    for side, mask in masks.items():
        try:
            costs[side] = result_cache().once(
                partial(layer_cost, mask, queries, keys, **sizes),
                *("cost", mask, queries, keys, sizes),
                work=inputs.heads * queries * keys,
            )
        except ValueError as problem:
            yield Note(f"{side}: {problem}")
    if not costs:
        return
    columns = [_entries(each, inputs.key.shape[-1], inputs.value.shape[-1], number_bytes) for each in costs.values()]
    heading = plural("{count} head", "{count} heads", inputs.heads, count=inputs.heads)
    yield Table([heading, *map(_, costs)], [(name, *(column[name] for column in columns)) for name in columns[0]])
    yield Note(" ".join(_sum_sentence(side, cost) for side, cost in costs.items() if side != FULL))
    width = inputs.key.shape[-1] + inputs.value.shape[-1]
    yield Caption(
        _(
            "Blocks are squares of {block} × {block} cells, counted as FlexAttention counts them: full "
            "ones allow every cell, in partial ones the mask is computed, and all others are left out. "
            "The cache is what a decoder must hold of this layer's keys and values at its fullest: "
            "{width} bytes a key, in each key head that a query still looks at. FLOPs are 2 × (d_k + "
            "d_v) = {attention_flops} for each pair: query · key, and weight · value.",
            block=block,
            width=grouped(width * number_bytes),
            attention_flops=grouped(attention_flops(1, width, 0)),
        )
    )


def _entries(cost: LayerCost, d_k: int, d_v: int, number_bytes: int) -> dict[str, str]:
    size = byte_size((cost.cached or 0) * (d_k + d_v) * number_bytes)
    return {
        _("kept pairs"): f"{grouped(cost.kept)} ({percent(cost.kept / cost.pairs)})",
        _("blocks computed"): _(
            "{kept} of {blocks} ({share})",
            kept=grouped(cost.blocks_kept),
            blocks=grouped(cost.blocks),
            share=percent(cost.blocks_kept / cost.blocks),
        ),
        _("full and partial blocks"): _(
            "{blocks_full} and {blocks_partial}",
            blocks_full=grouped(cost.blocks_full),
            blocks_partial=grouped(cost.blocks_partial),
        ),
        _("FLOPs of kept pairs"): flop_count(attention_flops(cost.kept, d_k, d_v)),
        _("FLOPs of blocks computed"): flop_count(attention_flops(cost.pairs_computed, d_k, d_v)),
        _("most keys a query sees"): grouped(cost.most),
        _("queries that see nothing"): grouped(cost.empty),
        _("cache of a decoder"): "–"
        if cost.cached is None
        else _("{cached} keys, {size}", cached=grouped(cost.cached), size=size),
    }


def _sum_sentence(side: str, cost: LayerCost) -> str:
    """Returns over which heads a cost is summed, and what each rule of them takes."""
    if len(cost.rules) == 1:
        return _(
            "{side}: the mask is the same in all heads ({heads}); the numbers are their sum.",
            side=side,
            heads=cost.heads,
        )
    listed = [_kept_by(rule) for rule in cost.rules[:MOST_LISTED]]
    if len(cost.rules) > MOST_LISTED:
        listed.append(_("and {count} more", count=len(cost.rules) - MOST_LISTED))
    return _(
        "{side}: the mask differs by head; the numbers are the sum of {heads} heads: {listed}.",
        side=side,
        heads=cost.heads,
        listed="; ".join(listed),
    )


def _kept_by(rule: RuleCost) -> str:
    count, heads, kept = len(rule.heads), _heads(rule.heads), grouped(rule.cost.kept)
    if rule.cost.cached is None:
        return plural("{heads} keeps {kept} pairs", "{heads} keep {kept} pairs each", count, heads=heads, kept=kept)
    return plural(
        "{heads} keeps {kept} pairs and {cached} keys",
        "{heads} keep {kept} pairs and {cached} keys each",
        count,
        heads=heads,
        kept=kept,
        cached=grouped(rule.cost.cached),
    )


def _heads(heads: tuple[int, ...]) -> str:
    listed = ", ".join(map(str, heads[:MOST_LISTED])) + ", …" * (len(heads) > MOST_LISTED)
    return (
        _("head {listed}", listed=listed)
        if len(heads) == 1
        else _("{count} heads ({listed})", count=len(heads), listed=listed)
    )
