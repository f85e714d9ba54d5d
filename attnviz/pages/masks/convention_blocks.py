"""Conventions: the same named mask as different libraries define it, and where they differ."""

from collections.abc import Iterator

import numpy as np

from attnviz.base.language import _
from attnviz.figures import mosaic
from attnviz.masks.conventions import Reading, disputed_cells, group_readings, readings
from attnviz.page.blocks import Block, Columns, Control, Figure, Heading, Note, Row, Table
from attnviz.page.html import Markup, element
from attnviz.pages.masks.mask_pair import MaskPair
from attnviz.pages.masks.state import MasksState

HEIGHT, WIDTH = 280, 0.3  # pixels, and the share of the width that a reading has
AGREED, DISPUTED = 0.35, 1.0  # how strongly a cell is colored


def convention_blocks(state: MasksState, _pair: MaskPair) -> Iterator[Block]:
    """Yields the definitions of a named mask, and the cells on which they differ."""
    named_mask, size = state.idea, int(state.convention_size)
    fields = MasksState.idea, MasksState.convention_size, MasksState.convention_queries, MasksState.convention_keys
    yield Row([Control(field, state) for field in fields], "mask-conventions")
    every = readings(named_mask, size, int(state.convention_queries), int(state.convention_keys))
    groups = group_readings(every)
    yield Heading(_(named_mask.question))
    if groups:
        disputed = disputed_cells(every).numpy()
        maps = np.stack(
            [
                np.where(group[0].allowed.numpy(), np.where(disputed, DISPUTED, AGREED), np.nan)  # type: ignore[union-attr]
                for group in groups
            ]
        )
        names = [_("Reading {number}", number=i + 1) for i in range(len(groups))]
        picture = mosaic(maps, columns=len(groups), names=names).with_about(
            label=_("What each convention allows"),
            name="",
            hint=_("Cells in the strong color are disputed."),
            description=_("{count} small maps of cells that are allowed.", count=len(groups)),
        )
        width = min(1.0, WIDTH * len(groups))
        columns: list[tuple[float, list[Block]]] = [(width, [Figure(picture, "readings", HEIGHT)])]
        yield Columns([*columns, *[(1 - width, [])] * (width < 1)])
        yield Note(
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
    yield Table(
        ("", _("Library"), _("What one writes"), _("Where it says so")),
        [(number, *_reading_cells(reading, size)) for number, reading in rows],
    )


def _reading_cells(reading: Reading, size: int) -> tuple[str, Markup, str]:
    convention = reading.convention
    source = f"{convention.source}. {convention.note}" if convention.note else convention.source
    return convention.library, element("code", convention.call_with(size)), reading.refusal or source
