"""What a link to Explore says."""

from attnviz.analysis.head_maps import Special
from attnviz.language import N_
from attnviz.state.color_range import ColorRange
from attnviz.state.fields import ChoiceField, FlagField
from attnviz.state.head_state import BIASES_FIELD, NORMALIZER_FIELD, SCORE_FIELD, QueryField, mask_field
from attnviz.state.long_map_state import LongMapState

SPECIAL = {
    N_("Shown"): Special.SHOWN, N_("Hidden"): Special.HIDDEN, N_("Hidden, rows rescaled"): Special.RESCALED
}  # fmt: skip
MOSAIC = {N_("One layer"): False, N_("All layers"): True}


class ExploreState(LongMapState):
    """A head, its mechanism, and the display of its maps."""

    mask = mask_field()
    score = SCORE_FIELD
    biases = BIASES_FIELD
    normalizer = NORMALIZER_FIELD
    special_tokens = ChoiceField(
        N_("Special tokens"), SPECIAL, when=lambda state: bool(state.inputs.special_keys),
        about=N_(
            "Tokens that the tokenizer adds, such as [CLS] and [SEP]. Many heads give them much of "
            "their attention; hide them to see the others."
        ),
    )  # fmt: skip
    mosaic = ChoiceField(
        N_("Mosaic"), MOSAIC, when=lambda state: len(state.layers) > 1,
        about=N_("The small maps: the heads of this layer, or all heads of all layers."),
    )  # fmt: skip
    colors = ChoiceField(
        N_("Colors"), tuple(ColorRange),
        about=N_("Which weight has the last color of the scale."),
    )  # fmt: skip
    pinned = QueryField()
    predict = FlagField(N_("Predict"), about=N_("Predict where the pinned query looks before you see it."))
    table = FlagField(N_("Show the numbers as a table"))
