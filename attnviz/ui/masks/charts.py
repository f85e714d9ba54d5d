"""The three maps, A, B and B − A, and the number of cells of each outcome."""

from collections.abc import Callable
from functools import partial

import streamlit as st
import torch

from attnviz.analysis.difference import ADDED, REMOVED, outcome_counts
from attnviz.figures.difference import difference_heatmap
from attnviz.formatting import grouped
from attnviz.language import N_, _
from attnviz.ui.chart import Stack, chart
from attnviz.ui.head_map import zoom_key
from attnviz.ui.html import element
from attnviz.ui.markdown import plain
from attnviz.ui.masks import mask_editor
from attnviz.ui.masks.arrangement import WIPE
from attnviz.ui.masks.comparison import SIDES, Comparison

HEIGHT = 330
LINK_GROUP = "masks"
STACK: tuple[Stack, ...] = ("lower", "upper", "beside")
OUTCOMES = {
    "kept": (N_("kept as they were"), N_("Both masks allow these cells, with the same weight.")),
    "re-weighted": (N_("re-weighted"), N_("Both masks allow these cells, with another weight.")),
    "removed": (N_("removed"), N_("Only A allows these cells.")),
    "added": (N_("added"), N_("Only B allows these cells.")),
}


def show_legend(comparison: Comparison) -> None:
    """Draws the outcomes with their numbers of cells, in one line."""
    count = outcome_counts(torch.from_numpy(comparison.outcomes))
    items = (
        element(
            "li", element("b", grouped(int(count[kind]))), f" {_(name)}", class_=f"attnviz-{kind}", title=_(meaning)
        )
        for kind, (name, meaning) in OUTCOMES.items()
    )
    st.html(element("ul", *items, class_="attnviz-kinds"))


def show(comparison: Comparison, arrangement: str, pinned: int | None, toggle: Callable[[int], None]) -> None:
    """Draws A, B and B − A, linked."""
    wipes = arrangement == WIPE
    columns = st.columns(2 if wipes else 3, gap="medium")
    stack = columns[0].container(key="stack") if wipes else None
    sides = zip(SIDES, comparison.mechanisms, comparison.maps, comparison.allowed, strict=True)
    for i, (side, mechanism, head_map, allowed) in enumerate(sides):
        painting, sentence = mask_editor.is_painting(side) and not wipes, mask_editor.describe_mask(mechanism)
        with stack or columns[i]:
            chart(
                head_map.chart(largest=comparison.largest, link=LINK_GROUP),
                f"map-{side.lower()}",
                title=side,
                label=_("Attention weights under mask {side}").format(side=side),
                name=f"attention mask {side}",
                description=_("Mask {side}: {sentence}").format(side=side, sentence=sentence),
                height=HEIGHT,
                pinned=pinned,
                hint=_("Drag over cells to paint them.")
                if painting
                else _("Point at a cell: it is marked in all three maps."),
                stack=STACK[i] if wipes else "",
                on_click=None if painting else lambda row, column: toggle(row),
                on_stroke=partial(mask_editor.paint, side, allowed) if painting else None,
            )
        with columns[0 if wipes else i]:
            st.caption(plain(f"{side}: {sentence}" if wipes else sentence))
    difference_chart = difference_heatmap(
        comparison.change, comparison.outcomes == REMOVED, comparison.outcomes == ADDED, *comparison.maps[0].labels,
        charts=("map-a", "map-b"), zoom_key=zoom_key(comparison.inputs), link=LINK_GROUP,
    )  # fmt: skip
    with columns[-1]:
        chart(
            difference_chart,
            "change",
            title="B − A",
            label=_("What changes from A to B"),
            name="attention B minus A",
            description=_("B minus A, cell by cell."),
            height=HEIGHT,
            pinned=pinned,
            hint=_("More attention in B is blue, less is brown."),
            stack=STACK[-1] if wipes else "",
            on_click=lambda row, column: toggle(row),
        )
