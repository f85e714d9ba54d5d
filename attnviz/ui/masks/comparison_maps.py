"""The three maps, A, B and B − A, and the number of cells of each outcome."""

from functools import partial

import streamlit as st
import torch

from attnviz.analysis.difference import outcome_counts
from attnviz.formatting import grouped
from attnviz.language import N_, _
from attnviz.page.html import element
from attnviz.state.masks import SIDE_BY_SIDE, SIDES, WIPE
from attnviz.ui import pinned_query, viewport_sliders
from attnviz.ui.chart import Stack, chart
from attnviz.ui.markdown import plain
from attnviz.ui.masks import mask_editor
from attnviz.views.head_difference import head_difference
from attnviz.views.mask_pair import MaskPair

HEIGHT = 330
HINTS = N_("Point at a cell: it is marked in all three maps."), N_("Drag over cells to paint them.")
LINK_GROUP, CHARTS = "masks", ("map-a", "map-b")
STACK: tuple[Stack, ...] = ("lower", "upper", "beside")
OUTCOMES = {
    "kept": (N_("kept as they were"), N_("Both masks allow these cells, with the same weight.")),
    "re-weighted": (N_("re-weighted"), N_("Both masks allow these cells, with another weight.")),
    "removed": (N_("removed"), N_("Only A allows these cells.")),
    "added": (N_("added"), N_("Only B allows these cells.")),
}


def show_legend(pair: MaskPair) -> None:
    """Draws the outcomes with their numbers of cells, in one line."""
    count = outcome_counts(torch.from_numpy(pair.outcomes))
    items = (
        element(
            "li", element("b", grouped(int(count[kind]))), f" {_(name)}", class_=f"attnviz-{kind}", title=_(meaning)
        )
        for kind, (name, meaning) in OUTCOMES.items()
    )
    st.html(element("ul", *items, class_="attnviz-row attnviz-kinds"))


def show(pair: MaskPair, arrangement: str = SIDE_BY_SIDE, pinned: int | None = None) -> None:
    """Draws A, B and B − A, linked; a zoom of the maps of a long text moves all of them."""
    wipes, is_long = arrangement == WIPE, pair.selection.is_long
    columns = st.columns(2 if wipes else 3, gap="medium")
    stack = columns[0].container(key="stack") if wipes else None
    on_click = None if is_long else pinned_query.toggler(pair.selection)
    sides = zip(SIDES, pair.mechanisms, pair.maps, pair.allowed, strict=True)
    for i, (side, mechanism, head_map, allowed) in enumerate(sides):
        painting = mask_editor.is_painting(side) and not (wipes or is_long)
        sentence = mask_editor.describe_mask(mechanism)
        picture = head_map.chart(largest=pair.largest, link=LINK_GROUP)
        picture = picture.with_about(
            label=_("Attention weights under mask {side}", side=side), name=_("attention mask {side}", side=side),
            description=f"{_('Mask {side}: {sentence}', side=side, sentence=sentence)} {picture.about.description}",
            hint=picture.about.hint if is_long else _(HINTS[painting]),
        )  # fmt: skip
        with stack or columns[i]:
            chart(
                picture, CHARTS[i], title=side, height=HEIGHT, pinned=pinned, stack=STACK[i] if wipes else "",
                on_click=None if painting else on_click, on_zoom=viewport_sliders.on_zoom(head_map),
                on_stroke=partial(mask_editor.paint, side, allowed) if painting else None,
            )  # fmt: skip
        with columns[0 if wipes else i]:
            st.caption(plain(f"{side}: {sentence}" if wipes else sentence))
    with columns[-1]:
        chart(
            head_difference(*pair.maps, charts=CHARTS, link=LINK_GROUP), "change",
            title="B − A", height=HEIGHT, pinned=pinned, stack=STACK[-1] if wipes else "",
            on_click=on_click, on_zoom=viewport_sliders.on_zoom(pair.maps[0]),
        )  # fmt: skip
