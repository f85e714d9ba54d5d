"""The maps of A and B of a long text in fewer cells, and the change of their mass; a zoom of one moves all."""

import streamlit as st

from attnviz.figures.downsampled_difference import downsampled_difference
from attnviz.language import _
from attnviz.ui.chart import chart
from attnviz.ui.color_range import largest_weight
from attnviz.ui.head_map import selected_map, zoom_key
from attnviz.ui.markdown import plain
from attnviz.ui.masks import mask_editor
from attnviz.ui.masks.comparison import SIDES, MaskPair

HEIGHT = 330
LINK_GROUP = "long-masks"


def show(pair: MaskPair) -> None:
    """Draws A, B and B − A, linked. Raises ValueError if one takes too much work."""
    maps = [selected_map(pair.selection.with_mechanism(mechanism)) for mechanism in pair.mechanisms]
    end = largest_weight([one.weights for one in maps])
    columns = st.columns(3, gap="medium")
    for side, mechanism, head_map, column in zip(SIDES, pair.mechanisms, maps, columns[:2], strict=True):
        sentence = mask_editor.describe_mask(mechanism)
        with column:
            chart(
                head_map.chart(largest=end, link=LINK_GROUP),
                f"map-{side.lower()}",
                title=side,
                label=_("Attention weights under mask {side}").format(side=side),
                name=f"attention mask {side}",
                description=_("Mask {side}: {sentence} {size}.").format(
                    side=side, sentence=sentence, size=head_map.size
                ),
                height=HEIGHT,
                hint=_("{quantity} of each cell.").format(quantity=_(head_map.cell_colors.quantity)),
                on_view=head_map.on_view,
            )
            st.caption(plain(sentence))
    before, after = (one.downsampled for one in maps)
    if before is None or after is None:
        return
    with columns[2]:
        chart(
            downsampled_difference(
                before, after, zoom_key=f"{zoom_key(pair.inputs)} {maps[0].viewport}", link=LINK_GROUP
            ),
            "change",
            title="B − A",
            label=_("What changes from A to B"),
            name="attention B minus A",
            description=_("The mass of B minus that of A, cell by cell."),
            height=HEIGHT,
            hint=_("More mass in B is blue, less is brown."),
            on_view=maps[0].on_view,
        )
