"""The maps of A and B of a long text, in fewer cells; a zoom of one moves both."""

import streamlit as st

from attnviz.ui.chart import chart
from attnviz.ui.color_range import largest_weight
from attnviz.ui.head_map import selected_map
from attnviz.ui.markdown import plain
from attnviz.ui.masks import mask_editor
from attnviz.ui.masks.comparison import SIDES, MaskPair

HEIGHT = 400
LINK_GROUP = "long-masks"


def show(pair: MaskPair) -> None:
    """Draws both maps. Raises ValueError if one takes too much work."""
    maps = [selected_map(pair.selection.with_mechanism(mechanism)) for mechanism in pair.mechanisms]
    end = largest_weight([one.weights for one in maps])
    columns = st.columns(2, gap="medium")
    for side, mechanism, head_map, column in zip(SIDES, pair.mechanisms, maps, columns, strict=True):
        sentence = mask_editor.describe_mask(mechanism)
        with column:
            chart(
                head_map.chart(largest=end, link=LINK_GROUP),
                f"map-{side.lower()}",
                title=side,
                label=f"Attention weights under mask {side}",
                name=f"attention mask {side}",
                description=f"Mask {side}: {sentence} {head_map.size}.",
                height=HEIGHT,
                hint="Each cell: its largest weight. Zoom to see fewer tokens.",
                on_view=head_map.on_view,
            )
            st.caption(plain(sentence))
