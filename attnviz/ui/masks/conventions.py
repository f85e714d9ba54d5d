"""Conventions: the same named mask as different libraries define it, and where they differ."""

import numpy as np
import streamlit as st

from attnviz.figures import mosaic
from attnviz.language import _
from attnviz.masks.conventions import Reading, disputed_cells, group_readings, readings
from attnviz.page.html import Markup, element, table
from attnviz.state.masks import MasksState
from attnviz.ui.chart import chart
from attnviz.ui.field_widgets import draw
from attnviz.ui.markdown import plain

AGREED, DISPUTED = 0.35, 1.0  # how strongly a cell is colored


def show() -> None:
    """Draws the definitions of a named mask, and the cells on which they differ."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        named_mask = draw(MasksState.idea)
        before = MasksState.partial(idea=named_mask)
        size = int(draw(MasksState.convention_size, before, label=_(named_mask.size)))
        queries = int(draw(MasksState.convention_queries, before))
        keys = int(draw(MasksState.convention_keys))
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
            names = [_("Reading {number}", number=i + 1) for i in range(len(groups))]
            picture = mosaic(maps, columns=len(groups), names=names).with_about(
                label=_("What each convention allows"), name="", hint=_("Cells in the strong color are disputed."),
                description=_("{count} small maps of cells that are allowed.", count=len(groups)),
            )  # fmt: skip
            chart(picture, "readings", height=280, grows=False)
        st.caption(
            _(
                "{disputed} of {cells} cells are disputed: they are drawn in the strong color where a reading allows "
                "them.",
                disputed=int(disputed.sum()),
                cells=disputed.size,
            )
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


def _reading_cells(reading: Reading, size: int) -> tuple[str, Markup, str]:
    convention = reading.convention
    source = f"{convention.source}. {convention.note}" if convention.note else convention.source
    return convention.library, element("code", convention.call_with(size)), reading.refusal or source
