"""The cost of both masks, for this text and for longer ones."""

from functools import partial

import streamlit as st

from attnviz.formatting import byte_size, percent
from attnviz.masks import Full
from attnviz.masks.cost import Cost, cost
from attnviz.ui import cache
from attnviz.ui.html import Markup, table
from attnviz.ui.markdown import plain
from attnviz.ui.masks.comparison import SIDES, Comparison

LENGTHS = (128, 512, 1_024, 4_096, 16_384, 65_536, 131_072)
BYTES = 2  # of a number in half precision, as models are served


def show(comparison: Comparison) -> None:
    """Draws what each mask computes, and what a decoder has to cache."""
    inputs = comparison.inputs
    here = f"this example ({inputs.queries} × {inputs.keys})"
    length = st.select_slider("Tokens", [here, *(f"{n:,}" for n in LENGTHS)], here, key="tokens", bind="query-params")
    queries, keys = (inputs.queries, inputs.keys) if length == here else (int(length.replace(",", "")),) * 2
    costs: dict[str, Cost] = {}
    head = comparison.mask_head
    masks = dict(zip((*SIDES, "Full"), (*(each.mask for each in comparison.mechanisms), Full()), strict=True))
    for side, mask in masks.items():
        try:
            costs[side] = cache.once(
                partial(cost, mask, queries, keys, head=head),
                *("cost", mask, queries, keys, head),
                work=queries * keys,
            )
        except ValueError as problem:
            st.info(plain(f"{side}: {problem}"))
    if not costs:
        return
    token_bytes = inputs.key.shape[0] * (inputs.key.shape[-1] + inputs.value.shape[-1]) * BYTES
    st.html(_cost_table(costs, token_bytes))
    st.caption(
        f"Blocks are squares of 128 × 128 cells that hold anything: what a block-sparse kernel computes. The cache is "
        f"what a decoder must hold of this layer's keys and values at its fullest, in half precision: "
        f"{token_bytes:,} bytes a token, for key heads: {inputs.key.shape[0]}."
        f"{' Counted for head 0; a mask that looks at the head differs in others.' * (comparison.head != head)}"
    )


def _cost_table(costs: dict[str, Cost], token_bytes: int) -> Markup:
    columns = [_entries(each, token_bytes) for each in costs.values()]
    return table(["", *costs], ([name, *(column[name] for column in columns)] for name in columns[0]))


def _entries(cost: Cost, token_bytes: int) -> dict[str, str]:
    cache = "–" if cost.cached is None else f"{cost.cached:,} keys, {byte_size(cost.cached * token_bytes)}"
    return {
        "kept pairs": f"{cost.kept:,}",
        "density": percent(cost.density),
        "blocks computed": f"{cost.blocks_kept:,} of {cost.blocks:,} ({percent(cost.blocks_density)})",
        "most keys a query sees": f"{cost.most:,}",
        "queries that see nothing": f"{cost.empty:,}",
        "cache of a decoder": cache,
    }
