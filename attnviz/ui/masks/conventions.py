"""Conventions: the same named mask as libraries define it, and where they disagree."""

from html import escape

import numpy as np
import streamlit as st

from attnviz.figures import mosaic
from attnviz.masks.conventions import CAUSAL, CONVENTIONS, alike, answers, disputed
from attnviz.ui import widgets
from attnviz.ui.chart import chart
from attnviz.ui.markdown import plain

MOST = 64
AGREED, DISPUTED = 0.35, 1.0  # how strongly a cell is colored


def show() -> None:
    """The masks that go by one name, each with who means it, and the cells on which not all agree."""
    ideas = {idea.name: idea for idea in CONVENTIONS}
    with st.container(horizontal=True, vertical_alignment="bottom"):
        idea = ideas[st.selectbox("Named mask", list(ideas), key="idea", bind="query-params")]
        size = st.number_input(idea.size, idea.least, MOST, idea.start, key=f"size of {idea.name}") if idea.size else 1
        # Where the alignment is in question, there are fewer queries than keys; elsewhere it would only add to it.
        queries = st.number_input("Queries", 1, MOST, 8 if idea is CAUSAL else 12, key=f"queries of {idea.name}")
        limits = {"min_value": 1, "max_value": MOST, "value": 12}
        keys = widgets.whole_number("Keys", **limits, key="keys", bind="query-params")
    found = answers(idea, size, queries, keys)
    groups = alike(found)
    st.markdown(f"**{plain(idea.question)}**")
    if groups:
        cells = disputed(found).numpy()
        shown = np.stack([
            np.where(group[0].allowed.numpy(), np.where(cells, DISPUTED, AGREED), np.nan)  # type: ignore[union-attr]
            for group in groups
        ])  # fmt: skip
        with st.container(width=320 * len(groups)):
            chart(
                mosaic(shown, columns=len(groups), names=[f"Reading {number}" for number in _numbers(len(groups))]),
                "readings",
                label="What each convention allows",
                name="conventions",
                description=f"{len(groups)} small maps of cells that are allowed; dark cells are disputed.",
                height=280,
                grows=False,
                hint="Cells in the strong color are disputed.",
            )
        st.caption(
            f"{int(cells.sum())} of {cells.size} cells are disputed: they are drawn in the strong color where a "
            "reading allows them."
            if len(groups) > 1
            else "All agree, at these numbers."
        )
    rows = [
        (number, one.convention) for number, group in zip(_numbers(len(groups)), groups, strict=True) for one in group
    ]
    st.html(
        "<table class='attnviz-table'><thead><tr><th></th><th>Library</th><th>What one writes</th><th>Where it says so"
        "</th></tr></thead><tbody>"
        + "".join(
            f"<tr><td><b>{number}</b></td><td>{escape(one.library)}</td><td><code>{escape(one.written(size))}</code></td>"
            f"<td>{escape(one.source)}{f'. {escape(one.note)}' if one.note else ''}</td></tr>"
            for number, one in rows
        )
        + "".join(
            f"<tr><td>–</td><td>{escape(one.convention.library)}</td>"
            f"<td><code>{escape(one.convention.written(size))}</code></td><td>{escape(one.refusal)}</td></tr>"
            for one in found
            if one.allowed is None
        )
        + "</tbody></table>"
    )


def _numbers(count: int) -> list[str]:
    return [str(i + 1) for i in range(count)]
