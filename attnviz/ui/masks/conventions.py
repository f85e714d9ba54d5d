"""Conventions: the same named mask as different libraries define it, and where they differ."""

import numpy as np
import streamlit as st

from attnviz.figures import mosaic
from attnviz.language import _
from attnviz.masks.conventions import CAUSAL, NAMED_MASKS, Reading, disputed_cells, group_readings, readings
from attnviz.ui import widgets
from attnviz.ui.chart import chart
from attnviz.ui.html import Markup, element, table
from attnviz.ui.markdown import plain
from attnviz.ui.menus import names_of

MOST = 64
AGREED, DISPUTED = 0.35, 1.0  # how strongly a cell is colored


def show() -> None:
    """Draws the definitions of a named mask, and the cells on which they differ."""
    masks = {named_mask.name: named_mask for named_mask in NAMED_MASKS}
    with st.container(horizontal=True, vertical_alignment="bottom"):
        named_mask = masks[_choose(list(masks))]
        size = 1
        if named_mask.size:
            size = st.number_input(
                _(named_mask.size), named_mask.least, MOST, named_mask.start, key=f"size of {named_mask.name}"
            )
        # Fewer queries than keys where the alignment is in question; elsewhere that would add a second question.
        queries = st.number_input(
            _("Queries"), 1, MOST, 8 if named_mask is CAUSAL else 12, key=f"queries of {named_mask.name}"
        )
        limits = {"min_value": 1, "max_value": MOST, "value": 12}
        keys = widgets.whole_number(_("Keys"), **limits, key="keys", bind="query-params")
    every = readings(named_mask, size, queries, keys)
    groups = group_readings(every)
    st.markdown(f"**{plain(_(named_mask.question))}**")
    if groups:
        disputed = disputed_cells(every).numpy()
        maps = np.stack([
            np.where(group[0].allowed.numpy(), np.where(disputed, DISPUTED, AGREED), np.nan)  # type: ignore[union-attr]
            for group in groups
        ])  # fmt: skip
        with st.container(width=320 * len(groups)):
            chart(
                mosaic(maps, columns=len(groups), names=[_("Reading {i}").format(i=i + 1) for i in range(len(groups))]),
                "readings",
                label=_("What each convention allows"),
                name=_("conventions"),
                description=_("{count} small maps of cells that are allowed; dark cells are disputed.").format(
                    count=len(groups)
                ),
                height=280,
                grows=False,
                hint=_("Cells in the strong color are disputed."),
            )
        st.caption(
            _(
                "{sum} of {size} cells are disputed: they are drawn in the strong color where a reading allows them."
            ).format(sum=int(disputed.sum()), size=disputed.size)
            if len(groups) > 1
            else _("All agree, at these numbers.")
        )
    rows = [(str(number), reading) for number, group in enumerate(groups, 1) for reading in group]
    rows += [("–", reading) for reading in every if reading.allowed is None]
    st.html(
        table(
            ["", _("Library"), _("What one writes"), _("Where it says so")],
            ([number, *_reading_cells(reading, size)] for number, reading in rows),
        )
    )


def _choose(names: list[str]) -> str:
    return st.selectbox(_("Named mask"), names, key="idea", bind="query-params", format_func=names_of("idea", names))


def _reading_cells(reading: Reading, size: int) -> tuple[str, Markup, str]:
    convention = reading.convention
    source = f"{convention.source}. {convention.note}" if convention.note else convention.source
    return convention.library, element("code", convention.call_with(size)), reading.refusal or source
