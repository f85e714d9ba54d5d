"""The three maps, A, B and B − A, and the number of cells of each outcome."""

from collections.abc import Callable, Sequence
from functools import partial

import streamlit as st
import torch
from streamlit.delta_generator import DeltaGenerator

from attnviz.analysis.difference import ADDED, REMOVED, outcome_counts
from attnviz.figures.difference import difference_heatmap
from attnviz.ui.chart import chart
from attnviz.ui.head_map import zoom_key
from attnviz.ui.html import element
from attnviz.ui.markdown import plain
from attnviz.ui.masks import mask_editor
from attnviz.ui.masks.comparison import SIDES, Comparison

HEIGHT = 330
LINK_GROUP = "masks"
KINDS = {
    "kept": "kept by both, as they were",
    "re-weighted": "kept by both, re-weighted only",
    "removed": "removed: only A allows them",
    "added": "added: only B allows them",
}


def show_legend(comparison: Comparison) -> None:
    """Draws the outcomes with their numbers of cells."""
    count = outcome_counts(torch.from_numpy(comparison.outcomes))
    items = (
        element("li", element("b", f"{count[kind]:,}"), f" {meaning}", class_=f"attnviz-{kind}")
        for kind, meaning in KINDS.items()
    )
    st.html(
        element("p", "What changes from A to B", class_="attnviz-change")
        + element("ul", *items, class_="attnviz-kinds")
    )


def show(
    comparison: Comparison, places: Sequence[DeltaGenerator], pinned: int | None, toggle: Callable[[int], None]
) -> None:
    """Draws A, B and B − A, linked, each in its place."""
    sides = zip(SIDES, comparison.mechanisms, comparison.maps, comparison.allowed, places[:2], strict=True)
    for side, mechanism, head_map, allowed, place in sides:
        painting, sentence = mask_editor.is_painting(side), mask_editor.describe_mask(mechanism)
        with place:
            chart(
                head_map.chart(largest=comparison.largest, link=LINK_GROUP),
                f"map-{side.lower()}",
                title=side,
                label=f"Attention weights under mask {side}",
                name=f"attention mask {side}",
                description=f"Mask {side}: {sentence}",
                height=HEIGHT,
                pinned=pinned,
                hint="Drag over cells to paint them."
                if painting
                else "Point at a cell: it is marked in all three maps.",
                on_click=None if painting else lambda row, _: toggle(row),
                on_stroke=partial(mask_editor.paint, side, allowed) if painting else None,
            )
            st.caption(plain(sentence))
    difference_chart = difference_heatmap(
        comparison.change, comparison.outcomes == REMOVED, comparison.outcomes == ADDED, *comparison.maps[0].labels,
        charts=("map-a", "map-b"), zoom_key=zoom_key(comparison.inputs), link=LINK_GROUP,
    )  # fmt: skip
    with places[2]:
        chart(
            difference_chart,
            "change",
            title="B − A",
            label="What changes from A to B",
            name="attention B minus A",
            description="B minus A, cell by cell.",
            height=HEIGHT,
            pinned=pinned,
            hint="More attention in B is blue, less is brown.",
            on_click=lambda row, _: toggle(row),
        )
