"""What a link to Masks says."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from attnviz.biases import BIASES
from attnviz.export import EXPORTS
from attnviz.formatting import percent
from attnviz.language import N_
from attnviz.masks import Causal, Full, Mask, parse
from attnviz.masks.conventions import CAUSAL, NAMED_MASKS
from attnviz.masks.empty_rows import EMPTY_ROW_CONVENTIONS
from attnviz.mechanism import Mechanism
from attnviz.state.fields import ChoiceField, NumberField, ParsedField, PartsField, TextField
from attnviz.state.head_state import ABOUT_BIASES, NORMALIZER_FIELD, SCORE_FIELD, QueryField, is_free
from attnviz.state.long_map_state import LongMapState
from attnviz.state.viewport import is_long

SIDES = ("A", "B")
OPENING: dict[str, Mask] = {"A": Full(), "B": Causal()}
SIDE_BY_SIDE, WIPE = N_("Side by side"), N_("Wipe")
TABS = {  # and whether they need a map of all cells
    N_("Where it went"): True, N_("Mass kept"): False, N_("Cost"): False, N_("Empty rows"): True,
    N_("Conventions"): False, N_("Stacked layers"): True, N_("Code"): False, N_("Gallery"): False,
}  # fmt: skip
NUMBER_BYTES = {"fp32": 4, N_("fp16 or bf16"): 2, N_("fp8 or int8"): 1}  # of a number in the cache
HERE = N_("this example (# × #)")  # an option of the menu
LENGTHS = (128, 512, 1_024, 4_096, 16_384, 65_536, 131_072)
BUDGETS = (0.05, 0.1, 0.2, 0.3, 0.5)  # shares of the pairs that A allows
MOST_KEYS, MOST_LAYERS = 64, 24


def mask_of_side(side: str) -> ParsedField[Mask]:
    return ParsedField(N_("Mask"), parse, OPENING[side], parameter=f"mask-{side.lower()}", when=is_free)


def biases_of_side(label: str, side: str) -> PartsField:
    return PartsField(
        label, BIASES, lambda state: state.mechanism.biases, prefix=side, when=is_free, about=ABOUT_BIASES
    )


def side_field(label: str) -> ChoiceField[str]:
    return ChoiceField(label, SIDES, lambda _state: "B")


def lengths(state: Any) -> Mapping[str, tuple[int, int]]:
    """Returns numbers of queries and keys by their names: those of the example, and others."""
    queries, keys = state.inputs.queries, state.inputs.keys
    return {f"this example ({queries} × {keys})": (queries, keys)} | {f"{n:,}": (n, n) for n in LENGTHS}


def tabs(state: Any) -> Sequence[str]:
    return [name for name, needs_all in TABS.items() if not (needs_all and is_long(state.inputs))]


class MasksState(LongMapState):
    """A head under two masks, A and B, each with its biases, and what is shown of them."""

    score = SCORE_FIELD
    normalizer = NORMALIZER_FIELD
    mask_a = mask_of_side("A")
    biases_a = biases_of_side(N_("Biases A"), "A")
    mask_b = mask_of_side("B")
    biases_b = biases_of_side(N_("Biases B"), "B")
    pinned = QueryField()
    maps = ChoiceField(N_("Maps"), (SIDE_BY_SIDE, WIPE))
    look = ChoiceField(N_("Tab"), tabs)
    budget = ChoiceField(
        N_("Pairs computed, of those that A allows"), {percent(share): share for share in BUDGETS}, lambda _state: 0.2
    )
    tokens = ChoiceField(N_("Tokens"), lengths)
    block = ChoiceField(N_("Block of a kernel"), (64, 128, 256), lambda _state: 128)
    cache_type = ChoiceField(N_("Numbers in the cache"), NUMBER_BYTES, lambda _state: 2)
    empty_row = ChoiceField(N_("An empty row becomes"), {each.name: each for each in EMPTY_ROW_CONVENTIONS})
    idea = ChoiceField(N_("Named mask"), {each.name: each for each in NAMED_MASKS})
    convention_size = NumberField(
        N_("Size"), lambda state: state.idea.start, lambda state: state.idea.least, MOST_KEYS, parameter="size",
        when=lambda state: bool(state.idea.size),
    )  # fmt: skip
    # Fewer queries than keys where the alignment is in question; elsewhere that would add a second question.
    convention_queries = NumberField(
        N_("Queries"), lambda state: 8 if state.idea is CAUSAL else 12, 1, MOST_KEYS, parameter="queries"
    )
    convention_keys = NumberField(N_("Keys"), 12, 1, MOST_KEYS, parameter="keys")
    stacked_layers = NumberField(N_("Layers"), 4, 1, MOST_LAYERS, parameter="layers")
    pattern = TextField(
        N_("Pattern of layers"), about=N_("The mask of the first layer, of the second and so on, repeated over all "
        "layers: AAAAAB is five layers of A and one of B."),
    )  # fmt: skip
    code_of = side_field(N_("Mechanism"))
    code_in = ChoiceField(N_("Library"), tuple(EXPORTS))
    load_into = side_field(N_("Load into"))

    @property
    def mechanisms(self) -> tuple[Mechanism, Mechanism]:
        """The mechanisms of both sides."""
        shared = self.mechanism
        sides = (self.mask_a, self.biases_a), (self.mask_b, self.biases_b)
        before, after = (replace(shared, mask=mask, biases=biases) for mask, biases in sides)
        return before, after
