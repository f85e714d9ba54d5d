"""The receptive field of stacked layers of each mask."""

import streamlit as st
import torch

from attnviz.analysis.receptive_field import field_sizes, layers_needed
from attnviz.figures import heatmap
from attnviz.figures.sentences import CellSentences
from attnviz.ui.chart import chart
from attnviz.ui.head_map import zoom_key
from attnviz.ui.markdown import plain
from attnviz.ui.masks.comparison import SIDES, Comparison

MOST = 24
SENTENCES = CellSentences(
    "{query} depends on {key} from {weight} layers on.", "{query} does not depend on {key} through so many layers."
)


def show(comparison: Comparison) -> None:
    """Draws for each mask the number of layers through which a query depends on a key."""
    inputs = comparison.inputs
    count = st.slider("Layers", 1, MOST, 4, key="layers", bind="query-params")
    for side, allowed, place in zip(SIDES, comparison.allowed, st.columns(2), strict=True):
        with place:
            try:
                needed = layers_needed(allowed, count)
            except ValueError as problem:
                st.info(plain(str(problem)))
                continue
            each = field_sizes(needed, count)
            depth = torch.where(needed > 0, needed.float(), torch.nan).numpy()
            chart(
                heatmap(
                    depth, inputs.query_tokens, inputs.key_tokens, largest=float(count), sentences=SENTENCES,
                    zoom_key=zoom_key(inputs), link="layers", fan=False, whole_numbers=True,
                ),
                f"reach-{side.lower()}",
                label=f"Layers until a query depends on a key, mask {side}",
                name=f"reach of mask {side}",
                description=f"The number of layers of mask {side} through which each query depends on each key.",
                height=330,
                hint=f"Mask {side}: the color is the number of layers.",
            )  # fmt: skip
            growth = " → ".join(map(str, each.each[:, -1].tolist()))
            st.caption(f"Under {side} the last query depends on {growth} of {len(allowed)} keys, layer by layer.")
    st.caption("Each position also keeps itself from layer to layer, through the residual stream.")
