"""Two mechanisms on the same queries and keys: their maps, and what changes from one to the other."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import streamlit as st
import torch
from jaxtyping import Bool, Float, Int
from streamlit.delta_generator import DeltaGenerator

from attnviz.analysis.difference import ADDED, REMOVED, counts, difference, kinds
from attnviz.analysis.head_maps import Aggregate, HeadChoice, Special
from attnviz.figures import heatmap
from attnviz.figures.difference import difference as difference_figure
from attnviz.figures.sentences import GIVES, GIVES_AT_MOST, GIVES_ON_AVERAGE, CellSentences
from attnviz.inputs import Inputs
from attnviz.layer import Layer
from attnviz.mechanism import Mechanism
from attnviz.sources import Source
from attnviz.ui.chart import chart
from attnviz.ui.color_range import largest_weight
from attnviz.ui.markdown import plain
from attnviz.ui.masks import mask_editor
from attnviz.ui.view import head_weights, tokens_stamp

HEIGHT = 330
LINK = "masks"
KINDS_SAID = {
    "kept": "kept by both, as they were",
    "re-weighted": "kept by both, re-weighted only",
    "removed": "removed: only A allows them",
    "added": "added: only B allows them",
}
PAINT = "Drag over cells to paint them."
SAYS: dict[HeadChoice, str] = {Aggregate.MEAN: GIVES_ON_AVERAGE, Aggregate.MAXIMUM: GIVES_AT_MOST}


@dataclass(frozen=True, eq=False)
class Comparison:
    """One head under two mechanisms. Making it computes it, and raises ValueError where that cannot be done."""

    source: Source
    layers: Sequence[Layer]
    layer: int
    head: HeadChoice
    mechanisms: tuple[Mechanism, Mechanism]
    maps: tuple[Float[np.ndarray, "queries keys"], Float[np.ndarray, "queries keys"]] = field(init=False)
    change: Float[np.ndarray, "queries keys"] = field(init=False)
    kinds: Int[np.ndarray, "queries keys"] = field(init=False)

    def __post_init__(self) -> None:
        before, after = (
            head_weights(self.source, self.layers, self.layer, one, self.head, Special.SHOWN) for one in self.mechanisms
        )
        object.__setattr__(self, "maps", (before, after))
        object.__setattr__(self, "change", difference(torch.from_numpy(before), torch.from_numpy(after)).numpy())
        object.__setattr__(self, "kinds", kinds(torch.from_numpy(before), torch.from_numpy(after)).numpy())

    @property
    def inputs(self) -> Inputs:
        return self.layers[self.layer].inputs

    @property
    def one_head(self) -> int:
        """The head whose mask is meant where several are shown together."""
        return self.head if isinstance(self.head, int) else 0

    @property
    def allowed(self) -> tuple[Bool[np.ndarray, "queries keys"], Bool[np.ndarray, "queries keys"]]:
        before, after = (~np.isnan(one) for one in self.maps)
        return before, after

    @property
    def largest(self) -> float:
        """The weight at the end of the color scale of both maps."""
        return largest_weight(self.maps)


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
    inputs = comparison.inputs
    tokens = (inputs.query_tokens, inputs.key_tokens)
    stamp, sentences = tokens_stamp(inputs), CellSentences(SAYS.get(comparison.head, GIVES))
    for side, weights, allowed, place in zip(
        mask_editor.SIDES, comparison.maps, comparison.allowed, places[:2], strict=True
    ):
        picture = heatmap(
            weights, *tokens, largest=comparison.largest, sentences=sentences, fan=False, zoom_key=stamp, link=LINK
        )
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
        comparison.change, comparison.kinds == REMOVED, comparison.kinds == ADDED, *tokens,
        charts=("map-a", "map-b"), zoom_key=stamp, link=LINK,
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
