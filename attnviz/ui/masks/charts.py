"""Two mechanisms on the same queries and keys: their maps, and what changes from one to the other."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import streamlit as st
import torch
from jaxtyping import Bool, Float, UInt8
from streamlit.delta_generator import DeltaGenerator

from attnviz.analysis.difference import ADDED, REMOVED, counts, difference, kinds
from attnviz.analysis.head_maps import HeadChoice
from attnviz.figures.difference import difference as difference_figure
from attnviz.inputs import Inputs
from attnviz.mechanism import Mechanism
from attnviz.ui.chart import chart
from attnviz.ui.color_range import largest_weight
from attnviz.ui.head_map import HeadMap, selected_map, zoom_key
from attnviz.ui.markdown import plain
from attnviz.ui.masks import mask_editor
from attnviz.ui.selection import Selection

HEIGHT = 330
LINK = "masks"
KINDS_SAID = {
    "kept": "kept by both, as they were",
    "re-weighted": "kept by both, re-weighted only",
    "removed": "removed: only A allows them",
    "added": "added: only B allows them",
}
PAINT = "Drag over cells to paint them."


@dataclass(frozen=True, eq=False)
class Comparison:
    """One head under two mechanisms, and what changes from the first to the second."""

    selection: Selection
    mechanisms: tuple[Mechanism, Mechanism]
    maps: tuple[HeadMap, HeadMap]
    change: Float[np.ndarray, "queries keys"]
    kinds: UInt8[np.ndarray, "queries keys"]

    @property
    def inputs(self) -> Inputs:
        return self.selection.layer.inputs

    @property
    def head(self) -> HeadChoice:
        return self.selection.head

    @property
    def one_head(self) -> int:
        """The head whose mask is meant where several are shown together."""
        return self.head if isinstance(self.head, int) else 0

    @property
    def allowed(self) -> tuple[Bool[np.ndarray, "queries keys"], Bool[np.ndarray, "queries keys"]]:
        before, after = (~np.isnan(one.weights) for one in self.maps)
        return before, after


def compare(selection: Selection, mechanisms: tuple[Mechanism, Mechanism]) -> Comparison:
    """Returns the selected head under both mechanisms. Raises ValueError if that cannot be computed."""
    before, after = (selected_map(selection.with_mechanism(one)) for one in mechanisms)
    weights = torch.from_numpy(before.weights), torch.from_numpy(after.weights)
    return Comparison(
        selection, mechanisms, (before, after), difference(*weights).numpy(), kinds(*weights).numpy()
    )  # fmt: skip


def legend(comparison: Comparison) -> None:
    """The four kinds of cells, counted."""
    found = counts(torch.from_numpy(comparison.kinds))
    rows = "".join(
        f"<li class='attnviz-{name}'><b>{found[name]:,}</b> {says}</li>" for name, says in KINDS_SAID.items()
    )
    st.html(f"<p class='attnviz-change'>What changes from A to B</p><ul class='attnviz-kinds'>{rows}</ul>")


def show(
    comparison: Comparison, places: Sequence[DeltaGenerator], pinned: int | None, toggle: Callable[[int], None]
) -> None:
    """Draws A, B and B − A, linked, each in its place."""
    end = largest_weight([one.weights for one in comparison.maps])
    for side, head_map, allowed, place in zip(
        mask_editor.SIDES, comparison.maps, comparison.allowed, places[:2], strict=True
    ):
        picture = head_map.chart(largest=end, link=LINK)
        painting = mask_editor.painting(side)
        described = mask_editor.described(comparison.mechanisms[mask_editor.SIDES.index(side)])
        with place:
            chart(
                picture,
                f"map-{side.lower()}",
                title=side,
                label=f"Attention weights under mask {side}",
                name=f"attention mask {side}",
                description=f"Mask {side}: {described}",
                height=HEIGHT,
                pinned=pinned,
                hint=PAINT if painting else "Point at a cell: it is marked in all three maps.",
                on_click=None if painting else lambda row, _: toggle(row),
                on_stroke=partial(mask_editor.paint, side, allowed) if painting else None,
            )
            st.caption(plain(described))
    change = difference_figure(
        comparison.change, comparison.kinds == REMOVED, comparison.kinds == ADDED, *comparison.maps[0].labels,
        charts=("map-a", "map-b"), zoom_key=zoom_key(comparison.inputs), link=LINK,
    )  # fmt: skip
    with places[2]:
        chart(
            change,
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
