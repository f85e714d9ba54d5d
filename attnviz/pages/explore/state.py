"""What a link to Explore says."""

from collections.abc import Sequence
from dataclasses import replace

from attnviz.analysis.head_metrics import HEAD_METRICS, HeadMetric, Next
from attnviz.base.cached_property import cached_property
from attnviz.base.language import N_
from attnviz.layer import Kind, Layer
from attnviz.page.fields import ChoiceField, FlagField, optional_choice
from attnviz.page.head_state import (
    BIASES_FIELD,
    COLORS_FIELD,
    NORMALIZER_FIELD,
    SCORE_FIELD,
    SPECIAL_TOKENS_FIELD,
    QueryField,
    mask_field,
)
from attnviz.page.long_map_state import LongMapState
from attnviz.page.selection import Selection
from attnviz.page.source_field import HeadField

MOSAIC = {N_("One layer"): False, N_("All layers"): True}


MAPS = N_("Attention maps")


def offered_metrics(layers: Sequence[Layer]) -> dict[str, HeadMetric]:
    """Returns the metrics by name, without that of the next token where no layer has one to attend to."""
    sees_ahead = any(layer.kind is Kind.SELF for layer in layers)
    return {metric.name: metric for metric in HEAD_METRICS if sees_ahead or not isinstance(metric, Next)}


class ExploreState(LongMapState):
    """A head, its mechanism, and the display of its maps."""

    head = HeadField(has_rollout=True)
    mask = mask_field()
    score = SCORE_FIELD
    biases = BIASES_FIELD
    normalizer = NORMALIZER_FIELD
    special_tokens = SPECIAL_TOKENS_FIELD
    mosaic = ChoiceField(
        N_("Mosaic"),
        MOSAIC,
        when=lambda state: len(state.layers) > 1,
        place="more",
        about=N_("The small maps: the heads of this layer, or all heads of all layers."),
    )
    colors = COLORS_FIELD
    color_by = optional_choice(
        N_("Color by"),
        MAPS,
        lambda state: offered_metrics(state.layers),
        place="more",
        about=N_("Small maps of all heads, or one number for each."),
    )
    pinned = QueryField()
    predict = FlagField(N_("Predict"), about=N_("Predict where the pinned query looks before you see it."))
    table = FlagField(N_("Show the numbers as a table"))

    @cached_property
    def selection(self) -> Selection:
        """The head and the display of its maps, of which all fields come before that of the query."""
        return replace(
            super().selection,
            all_layers=self.mosaic,
            colors=self.colors,
            viewport=self.viewport,
            cell_colors=self.cell_colors,
        )
