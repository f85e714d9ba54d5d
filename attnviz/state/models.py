"""What a link to Models says."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from attnviz.analysis.head_maps import Aggregate, Special, shown_positions
from attnviz.analysis.work import is_affordable
from attnviz.cached_property import cached_property
from attnviz.language import N_
from attnviz.layer import Layer, head_option
from attnviz.masks import Mask, parse
from attnviz.models import MINILM
from attnviz.models.interventions import Intervention
from attnviz.sources import Model
from attnviz.sources.model import PICTURE_MB, PICTURES, example_text
from attnviz.state.aggregation_methods import (
    METHODS,
    ROLLOUT,
    VALUE_WEIGHTED,
    LayerHead,
    head_choices,
    layer_head_name,
)
from attnviz.state.explore import MAPS, ExploreState, offered_metrics, optional_choice
from attnviz.state.fields import ChoiceField, ChoicesField, FlagField, ModelField, ParsedField
from attnviz.state.head_state import QueryField
from attnviz.state.intervention_fields import ABLATION_HELP, changed_parts, part_fields
from attnviz.state.long_map_state import LongMapState
from attnviz.state.selection import Selection, similar_layers
from attnviz.state.session_fields import FileField, LongTextField
from attnviz.state.source_field import HeadField, LayerField

if TYPE_CHECKING:
    from attnviz.models.model import LoadedModel

OVERVIEW, AGGREGATION = N_("Overview"), N_("Together")
WHAT_IF = N_("What if")
TABS = {name: name for name in (OVERVIEW, AGGREGATION, WHAT_IF)}
STRONGEST = N_("Its strongest key")
EVERYWHERE, SAME_KIND, HERE = N_("All layers"), N_("Layers of this kind"), N_("This layer")
IF_PARTS = part_fields("if")


@dataclass(frozen=True, eq=False, kw_only=True)
class ModelSelection(Selection):
    """A selection whose source is an example through a model, and the state that it is of."""

    source: Model
    state: "ModelsState"

    @property
    def model(self) -> "LoadedModel":
        return self.source.model()

    @property
    def opening_query(self) -> int | None:
        """The query that the source opens with, or the last one that is not special: with it a model goes on."""
        if (opening := super().opening_query) is not None:
            return opening
        inputs = self.layers[0].inputs
        return next(reversed(shown_positions(inputs.queries, inputs.special_queries, Special.HIDDEN)), None)


def unlocked(layers: Sequence[Layer]) -> tuple[int, ...]:
    """Returns the indices of the layers whose attention can be changed."""
    return tuple(i for i, layer in enumerate(layers) if not layer.locked)


def layer_places(selection: Selection) -> dict[str, tuple[int, ...]]:
    """Returns the layers to change, by name: all, those of one kind, or one."""
    every = unlocked(selection.layers)
    same_kind = tuple(i for i in every if selection.layers[i].kind == selection.layer.kind)
    here = tuple(i for i in every if i == selection.index)
    places = {EVERYWHERE: every, SAME_KIND: same_kind, HERE: here}
    return {name: layers for name, layers in places.items() if name != SAME_KIND or 0 < len(same_kind) < len(every)}


def stack_work(layers: Sequence[Layer], stack: Sequence[int]) -> int:
    """Returns the number of weights of all heads of the layers in a stack."""
    return sum(layers[i].inputs.heads * layers[i].inputs.queries * layers[i].inputs.keys for i in stack)


class ModelsState(LongMapState):
    """A model with its input, a head of it, and what the tabs show of them."""

    model = ModelField()
    text = LongTextField(N_("Text"), lambda state: example_text(state.model))
    second = LongTextField(N_("Second text"), "")
    picture = FileField(N_("Image"), PICTURES, PICTURE_MB)
    layer, head = LayerField(), HeadField()
    special_tokens, colors = ExploreState.special_tokens, ExploreState.colors
    quantity, scale, find = LongMapState.quantity, LongMapState.scale, LongMapState.find
    part_of_queries, part_of_keys = LongMapState.part_of_queries, LongMapState.part_of_keys
    inspect = ChoiceField(N_("Tab"), TABS)
    pinned, predict = QueryField(), ExploreState.predict
    color_by = optional_choice(N_("Color by"), MAPS, lambda state: offered_metrics(state.layers))
    key = optional_choice(
        N_("Key"),
        STRONGEST,
        lambda state: {name: i for i, name in enumerate(state.selection.key_names)},
        about=N_("Or click a cell of the map: it pins its query and chooses its key."),
    )
    # Together
    aggregation = ChoiceField(N_("Taken together"), {name: name for name in METHODS}, parameter="together")
    chosen_heads = ChoicesField(
        N_("Heads"),
        lambda state: head_choices(state.layers, state.stack),
        option_name=layer_head_name,
        parameter="heads-together",
    )
    rollout_to = ChoiceField(
        N_("Through the layers, up to"),
        lambda state: {state.layers[i].name: i for i in state.stack},
        lambda state: state.stack[-1],
        when=lambda state: len(state.stack) > 1,
    )
    # The names hold the positions, so that a choice stays with its tokens when the text changes elsewhere.
    summed_tokens = ChoicesField(
        N_("Tokens"),
        lambda state: dict(zip(state.selection.query_names, state.selection.queries, strict=True)),
        parameter="tokens-together",
    )
    # What if
    if_own = FlagField(N_("Change it yourself"))
    if_mask, if_score, if_normalizer = IF_PARTS
    if_where = ChoiceField(
        N_("Where"),
        lambda state: layer_places(state.selection),
        about=N_("In which layers the mask, the score and the normalizer are replaced."),
    )
    if_off = ChoicesField(
        N_("Ablated heads"),
        lambda state: {
            head_option(state.layers[i].id, head): (i, head)
            for i in unlocked(state.layers)
            for head in range(state.layers[i].inputs.heads)
        },
        option_name=layer_head_name,
        about=ABLATION_HELP,
    )
    if_sparse = ParsedField[Mask | None](
        N_("Sparse mask laid over, in words"),
        lambda text: parse(text) if text.strip() else None,
        None,
        text=lambda mask: "" if mask is None else str(mask),
        about=N_(
            "A query sees what its layer’s own mask and this one both allow, as on the Masks page "
            "under “Mass kept”. `… | h != 3` changes head 3 alone."
        ),
    )

    @cached_property
    def source(self) -> Model:  # type: ignore[override]
        """The input through the model. Raises ValueError for the address of anything else."""
        from attnviz.models.hub import model_id  # with huggingface_hub, which other pages do without

        return Model(self.text, model_id(self.model) or MINILM, self.second, self.picture)

    @property
    def selection(self) -> ModelSelection:
        """The head, and the display of its maps."""
        return ModelSelection(
            source=self.source, state=self, layers=self.layers,
            index=self.layer, head=self.head,
            special=self.special_tokens, colors=self.colors, viewport=self.viewport,
            cell_colors=self.cell_colors,
        )  # fmt: skip

    @property
    def stack(self) -> list[int]:
        """The layers whose heads are taken together: those like the selected one, or it alone if all are too many."""
        stack = similar_layers(self.layers, self.layer)
        by_hand = METHODS[self.aggregation].aggregate is not None
        return [self.layer] if by_hand and not is_affordable(stack_work(self.layers, stack)) else stack

    @property
    def aggregated_heads(self) -> list[LayerHead]:
        """The heads that are taken together."""
        every = [head for heads in head_choices(self.layers, self.stack).values() for head in heads]
        if self.aggregation == ROLLOUT:
            chosen = {head for head in every if head[0] <= self.rollout_to}
        elif self.aggregation == VALUE_WEIGHTED:
            chosen = {(i, head) for i, head in every if i == self.layer and self.head in (head, *Aggregate)}
        else:
            chosen = {head for heads in self.chosen_heads for head in heads}
        return sorted(chosen or {*every})

    @property
    def intervention(self) -> Intervention:
        """What is changed in the model."""
        parts = changed_parts(IF_PARTS, (self.if_mask, self.if_score, self.if_normalizer))
        return Intervention(**parts, ablated=self.if_off, layers=self.if_where, sparse=self.if_sparse)
