"""What both masks cost, for this text and for longer ones."""

from functools import partial
from html import escape

import streamlit as st

from attnviz.formatting import byte_size, percent
from attnviz.masks import Full
from attnviz.masks.cost import Cost, cost
from attnviz.ui import cache
from attnviz.ui.markdown import plain
from attnviz.ui.masks.charts import Comparison
from attnviz.ui.masks.mask_editor import SIDES

LENGTHS = (128, 512, 1_024, 4_096, 16_384, 65_536, 131_072)
BYTES = 2  # of a number in half precision, as models are served


def show(comparison: Comparison) -> None:
    """A table of what each mask keeps, and what a decoder has to remember."""
    inputs = comparison.inputs
    here = f"this example ({inputs.queries} × {inputs.keys})"
    length = st.select_slider("Tokens", [here, *(f"{n:,}" for n in LENGTHS)], here, key="tokens", bind="query-params")
    queries, keys = (inputs.queries, inputs.keys) if length == here else (int(length.replace(",", "")),) * 2
    found: dict[str, Cost] = {}
    head = comparison.one_head
    masks = {**{side: one.mask for side, one in zip(SIDES, comparison.mechanisms, strict=True)}, "Full": Full()}
    for side, mask in masks.items():
        try:
            found[side] = cache.once(partial(cost, mask, queries, keys, head=head), "cost", mask, queries, keys, head)
        except ValueError as problem:
            st.info(plain(f"{side}: {problem}"))
    if not found:
        return
    width = inputs.key.shape[0] * (inputs.key.shape[-1] + inputs.value.shape[-1]) * BYTES
    st.html(_table(found, width))
    st.caption(
        f"Blocks are squares of 128 × 128 cells that hold anything: what a block-sparse kernel computes. The cache is "
        f"what a decoder must hold of this layer's keys and values at its fullest, in half precision: {width:,} bytes "
        f"a token, for key heads: {inputs.key.shape[0]}."
        f"{' Counted for head 0; a mask that looks at the head differs in others.' * (comparison.head != head)}"
    )


def _table(found: dict[str, Cost], width: int) -> str:
    columns = [_said(one, width) for one in found.values()]
    head = "".join(f"<th>{escape(side)}</th>" for side in found)
    body = "".join(
        f"<tr><th>{name}</th>{''.join(f'<td>{column[name]}</td>' for column in columns)}</tr>" for name in columns[0]
    )
    return f"<table class='attnviz-table'><thead><tr><th></th>{head}</tr></thead><tbody>{body}</tbody></table>"


def _said(one: Cost, width: int) -> dict[str, str]:
    return {
        "kept pairs": f"{one.kept:,}",
        "density": percent(one.density),
        "blocks computed": f"{one.blocks_kept:,} of {one.blocks:,} ({percent(one.blocks_density)})",
        "most keys a query sees": f"{one.most:,}",
        "queries that see nothing": f"{one.empty:,}",
        "cache of a decoder": "–" if one.cached is None else f"{one.cached:,} keys, {byte_size(one.cached * width)}",
    }
