"""What a link to Masks says."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from attnviz.base.cached_property import cached_property
from attnviz.base.formatting import percent
from attnviz.base.language import N_
from attnviz.biases import BIASES
from attnviz.export import EXPORTS
from attnviz.layer import Layer
from attnviz.masks import And, Causal, Full, Mask, parse
from attnviz.masks.conventions import CAUSAL, NAMED_MASKS
from attnviz.masks.empty_rows import EMPTY_ROW_CONVENTIONS
from attnviz.mechanism import Mechanism
from attnviz.models.interventions import SCORES as CHANGED_SCORES
from attnviz.models.interventions import Intervention
from attnviz.page.fields import ChoiceField, FlagField, NumberField, ParsedField, PartsField, TextField
from attnviz.page.head_state import ABOUT_BIASES, NORMALIZER_FIELD, SCORE_FIELD, QueryField, is_free, own_mechanism
from attnviz.page.long_map_state import LongMapState
from attnviz.page.selection import Selection
from attnviz.page.viewport import is_long
from attnviz.sources import Model

SIDES = ("A", "B")
OPENING: dict[str, Mask] = {"A": Full(), "B": Causal()}
TWO_MASKS, GALLERY, FOR_ENGINEERS = N_("Two masks"), N_("Gallery"), N_("For engineers")
MASS_KEPT, COST, SCRIPT = N_("Mass kept"), N_("Cost"), N_("Code")
CONVENTIONS, STACKED, EMPTY_ROWS = N_("Conventions"), N_("Stacked layers"), N_("Empty rows")
PARTS_OF_ALL_CELLS = STACKED, EMPTY_ROWS  # which a long map does not have
EVERYWHERE, SAME_KIND, HERE = N_("All layers"), N_("Layers of this kind"), N_("This layer")
NUMBER_BYTES = {"fp32": 4, N_("fp16 or bf16"): 2, N_("fp8 or int8"): 1}  # of a number in the cache
LENGTHS = (128, 512, 1_024, 4_096, 16_384, 65_536, 131_072)
BUDGETS = (0.05, 0.1, 0.2, 0.3, 0.5)  # shares of the pairs that A allows
MOST_KEYS, MOST_LAYERS = 64, 24


class MaskField(ParsedField[Mask]):
    """The mask of one side of the comparison, in words."""

    def __init__(self, label: str, side: str) -> None:
        super().__init__(label, parse, OPENING[side], parameter=f"mask-{side.lower()}", when=is_free)
        self.side = side


def biases_of_side(label: str, side: str) -> PartsField:
    own = {"when": is_free, "about": ABOUT_BIASES}
    return PartsField(label, BIASES, lambda state: state.mechanism.biases, prefix=side, **own)


def paint_of_side(side: str) -> FlagField:
    return FlagField(
        N_("Paint cells in the map"),
        parameter=f"paint-{side.lower()}",
        when=lambda state: is_free(state) and not is_long(state.inputs),
    )


def side_field(label: str) -> ChoiceField[str]:
    return ChoiceField(label, SIDES, lambda _state: "B")


def lengths(state: Any) -> Mapping[str, tuple[int, int]]:
    """Returns numbers of queries and keys by their names: those of the example, and others."""
    queries, keys = state.inputs.queries, state.inputs.keys
    return {f"this example ({queries} × {keys})": (queries, keys)} | {f"{n:,}": (n, n) for n in LENGTHS}


def engineer_parts(state: Any) -> Sequence[str]:
    """Returns the parts of the tab for engineers."""
    every = MASS_KEPT, COST, SCRIPT, CONVENTIONS, STACKED, EMPTY_ROWS
    return [name for name in every if not (name in PARTS_OF_ALL_CELLS and is_long(state.inputs))]


def runs_model(state: Any) -> bool:
    """Returns whether a model can be run under both masks."""
    return type(state.source) is Model and is_free(state) and bool(state.source.model().outputs)


def layer_places(layers: Sequence[Layer], index: int) -> dict[str, tuple[int, ...]]:
    """Returns the layers that a mask can be in, by name: those of the kind of one, all, or that one."""
    every = tuple(i for i, each in enumerate(layers) if not each.locked)
    same_kind = tuple(i for i in every if layers[i].kind == layers[index].kind)
    places = {SAME_KIND: same_kind, EVERYWHERE: every, HERE: (index,)}
    return {name: layers for name, layers in places.items() if name != SAME_KIND or len(same_kind) < len(every)}


class MasksState(LongMapState):
    """A head under two masks, A and B, each with its biases, and what is shown of them."""

    folds_controls = True
    score = SCORE_FIELD
    normalizer = NORMALIZER_FIELD
    laid_over = FlagField(
        N_("Laid over the layer's own mask"),
        when=is_free,
        place="more",
        about=N_("A query sees what the layer’s own mask and A, or B, both allow. Otherwise A and B replace it."),
    )
    model_layers = ChoiceField(
        N_("Layers of the model"),
        lambda state: layer_places(state.layers, state.layer),
        when=runs_model,
        place="more",
        about=N_("Where the model has the masks A and B when it reads the text under them."),
    )
    mask_a = MaskField(N_("Mask A"), "A")
    biases_a = biases_of_side(N_("Biases A"), "A")
    paint_a = paint_of_side("A")
    mask_b = MaskField(N_("Mask B"), "B")
    biases_b = biases_of_side(N_("Biases B"), "B")
    paint_b = paint_of_side("B")
    pinned = QueryField()
    look = ChoiceField(N_("Tab"), (TWO_MASKS, GALLERY, FOR_ENGINEERS))
    load_into = side_field(N_("Load into"))
    part = ChoiceField(N_("Part"), engineer_parts)
    budget = ChoiceField(
        N_("Pairs computed, of those that A allows"), {percent(share): share for share in BUDGETS}, lambda _state: 0.2
    )
    tokens = ChoiceField(N_("Tokens"), lengths)
    block = ChoiceField(N_("Block of a kernel"), (64, 128, 256), lambda _state: 128)
    cache_type = ChoiceField(N_("Numbers in the cache"), NUMBER_BYTES, lambda _state: 2)
    empty_row = ChoiceField(N_("An empty row becomes"), {each.name: each for each in EMPTY_ROW_CONVENTIONS})
    idea = ChoiceField(N_("Named mask"), {each.name: each for each in NAMED_MASKS})
    convention_size = NumberField(
        N_("Size"),
        lambda state: state.idea.start,
        lambda state: state.idea.least,
        MOST_KEYS,
        parameter="size",
        when=lambda state: bool(state.idea.size),
    )
    # Fewer queries than keys where the alignment is in question; elsewhere that would add a second question.
    convention_queries = NumberField(
        N_("Queries"), lambda state: 8 if state.idea is CAUSAL else 12, 1, MOST_KEYS, parameter="queries"
    )
    convention_keys = NumberField(N_("Keys"), 12, 1, MOST_KEYS, parameter="keys")
    stacked_layers = NumberField(N_("Layers"), 4, 1, MOST_LAYERS, parameter="layers")
    pattern = TextField(
        N_("Pattern of layers"),
        about=N_(
            "The mask of the first layer, of the second and so on, "
            "repeated over all layers: AAAAAB is five layers of A and one of B."
        ),
    )
    code_of = side_field(N_("Mechanism"))
    code_in = ChoiceField(N_("Library"), tuple(EXPORTS))

    @cached_property
    def selection(self) -> Selection:
        """The head, and the part of a long map in view."""
        return replace(super().selection, viewport=self.viewport, cell_colors=self.cell_colors)

    @property
    def mechanisms(self) -> tuple[Mechanism, Mechanism]:
        """The mechanisms of both sides."""
        shared = self.mechanism
        sides = (self.mask_a, self.biases_a), (self.mask_b, self.biases_b)
        before, after = (replace(shared, mask=self._in_layer(mask), biases=biases) for mask, biases in sides)
        return before, after

    def _in_layer(self, mask: Mask) -> Mask:
        """Returns the mask of a side as the layer has it."""
        own = own_mechanism(self).mask
        if not self.laid_over or own == mask:
            return mask
        return own if mask == Full() else And(own, mask)

    @property
    def interventions(self) -> tuple[Intervention, Intervention]:
        """What the model is changed by under A and under B; nothing where it has the mask itself."""
        own = own_mechanism(self)
        normalizer = None if self.normalizer == own.normalizer else self.normalizer
        score = self.score if isinstance(self.score, CHANGED_SCORES) and self.score != own.score else None
        before, after = (
            Intervention(
                mask=None if self.laid_over or self._is_own(mask) else mask,
                score=score,
                normalizer=normalizer,
                layers=self.model_layers,
                sparse=mask if self.laid_over and mask != Full() else None,
            )
            for mask in (self.mask_a, self.mask_b)
        )
        return before, after

    def _is_own(self, mask: Mask) -> bool:
        """Returns whether all layers that would have a mask have it already."""
        layers = (self.layers[i] for i in self.model_layers)
        return all(each.known_mechanism.mask == mask for each in layers)
