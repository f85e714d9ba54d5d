"""The cost of both masks, for this text and for longer ones."""

from functools import partial

import streamlit as st

from attnviz.formatting import byte_size, flop_count, grouped, percent
from attnviz.inputs import Inputs
from attnviz.language import N_, _, plural
from attnviz.masks import Full
from attnviz.masks.cost import LayerCost, attention_flops, layer_cost
from attnviz.ui import cache
from attnviz.ui.html import Markup, table
from attnviz.ui.markdown import plain
from attnviz.ui.masks.comparison import SIDES, MaskPair
from attnviz.ui.masks.length import choose_length
from attnviz.ui.menus import names_of

BLOCKS = ("64", "128", "256")
NUMBER_BYTES = {"fp32": 4, N_("fp16 or bf16"): 2, N_("fp8 or int8"): 1}  # of a number in the cache
FULL = N_("Full")
MOST_LISTED = 6  # heads of a rule, and rules


def show(comparison: MaskPair) -> None:
    """Draws what each mask computes in all heads, and what a decoder has to cache."""
    inputs = comparison.inputs
    queries, keys = choose_length(inputs)
    with st.container(horizontal=True):
        block = st.segmented_control(
            _("Block of a kernel"), BLOCKS, default="128", required=True, key="block", bind="query-params"
        )
        number = st.segmented_control(
            _("Numbers in the cache"), list(NUMBER_BYTES), default="fp16 or bf16", required=True, key="cache-type",
            format_func=names_of("cache-type", NUMBER_BYTES),
            bind="query-params",
        )  # fmt: skip
    costs: dict[str, LayerCost] = {}
    masks = dict(zip((*SIDES, FULL), (*(each.mask for each in comparison.mechanisms), Full()), strict=True))
    sizes = {"heads": inputs.heads, "kv_heads": inputs.key.shape[0], "block": int(block)}
    for side, mask in masks.items():
        try:
            costs[side] = cache.once(
                partial(layer_cost, mask, queries, keys, **sizes),
                *("cost", mask, queries, keys, sizes),
                work=inputs.heads * queries * keys,
            )
        except ValueError as problem:
            st.info(plain(f"{side}: {problem}"))
    if not costs:
        return
    st.html(_cost_table(costs, inputs, NUMBER_BYTES[number]))
    st.caption(plain(" ".join(_sum_sentence(side, cost) for side, cost in costs.items() if side != FULL)))
    width = inputs.key.shape[-1] + inputs.value.shape[-1]
    st.caption(
        _(
            "Blocks are squares of {block} × {block} cells, counted as FlexAttention counts them: full "
            "ones allow every cell, in partial ones the mask is computed, and all others are left out. "
            "The cache is what a decoder must hold of this layer's keys and values at its fullest: "
            "{width} bytes a key, in each key head that a query still looks at. FLOPs are 2 × (d_k + "
            "d_v) = {attention_flops} for each pair: query · key, and weight · value."
        ).format(
            block=block,
            width=grouped(width * NUMBER_BYTES[number]),
            attention_flops=grouped(attention_flops(1, width, 0)),
        )
    )


def _cost_table(costs: dict[str, LayerCost], inputs: Inputs, number_bytes: int) -> Markup:
    columns = [_entries(each, inputs.key.shape[-1], inputs.value.shape[-1], number_bytes) for each in costs.values()]
    heading = plural("{count} head", "{count} heads", inputs.heads).format(count=inputs.heads)
    return table([heading, *map(_, costs)], ([name, *(column[name] for column in columns)] for name in columns[0]))


def _entries(cost: LayerCost, d_k: int, d_v: int, number_bytes: int) -> dict[str, str]:
    size = byte_size((cost.cached or 0) * (d_k + d_v) * number_bytes)
    return {
        _("kept pairs"): f"{grouped(cost.kept)} ({percent(cost.kept / cost.pairs)})",
        _("blocks computed"): _("{blocks_kept} of {blocks} ({blocks_kept_2})").format(
            blocks_kept=grouped(cost.blocks_kept),
            blocks=grouped(cost.blocks),
            blocks_kept_2=percent(cost.blocks_kept / cost.blocks),
        ),
        _("full and partial blocks"): _("{blocks_full} and {blocks_partial}").format(
            blocks_full=grouped(cost.blocks_full), blocks_partial=grouped(cost.blocks_partial)
        ),
        _("FLOPs of kept pairs"): flop_count(attention_flops(cost.kept, d_k, d_v)),
        _("FLOPs of blocks computed"): flop_count(attention_flops(cost.pairs_computed, d_k, d_v)),
        _("most keys a query sees"): grouped(cost.most),
        _("queries that see nothing"): grouped(cost.empty),
        _("cache of a decoder"): "–"
        if cost.cached is None
        else _("{cached} keys, {size}").format(cached=grouped(cost.cached), size=size),
    }


def _sum_sentence(side: str, cost: LayerCost) -> str:
    """Returns over which heads a cost is summed, and what each rule of them takes."""
    if len(cost.rules) == 1:
        return _("{side}: the mask is the same in all heads ({heads}); the numbers are their sum.").format(
            side=side, heads=cost.heads
        )
    parts = [
        plural("{heads} keeps {kept} pairs", "{heads} keep {kept} pairs", len(rule.heads)).format(
            heads=_heads(rule.heads), kept=grouped(rule.cost.kept)
        )
        + (_(" and {cached} keys").format(cached=grouped(rule.cost.cached)) if rule.cost.cached is not None else "")
        + _(" each") * (len(rule.heads) > 1)
        for rule in cost.rules[:MOST_LISTED]
    ]
    more = _("; and {count} more").format(count=len(cost.rules) - MOST_LISTED) if len(cost.rules) > MOST_LISTED else ""
    return _("{side}: the mask differs by head; the numbers are the sum of {heads} heads: {join}{more}.").format(
        side=side, heads=cost.heads, join="; ".join(parts), more=more
    )


def _heads(heads: tuple[int, ...]) -> str:
    listed = ", ".join(map(str, heads[:MOST_LISTED])) + ", …" * (len(heads) > MOST_LISTED)
    return (
        _("head {listed}").format(listed=listed)
        if len(heads) == 1
        else _("{count} heads ({listed})").format(count=len(heads), listed=listed)
    )
