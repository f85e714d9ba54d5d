"""What a link to Steps says."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from attnviz.base.formatting import numbered_tokens
from attnviz.base.language import N_
from attnviz.biases import BIASES
from attnviz.masks import Causal, Full, Mask
from attnviz.page.fields import ChoiceField, NumberField, ParsedField, PartsField, ScaleField, TextField
from attnviz.page.head_state import ABOUT_BIASES
from attnviz.page.result_cache import result_cache
from attnviz.page.source_field import head_names
from attnviz.page.state import State
from attnviz.pages.steps.all_steps import Steps, compute_steps
from attnviz.pages.steps.computation import StepsExample
from attnviz.pages.steps.edits import Edits, format_edits, parse_edits
from attnviz.pages.steps.matrix import Matrix
from attnviz.pages.steps.scaling import WIDTHS
from attnviz.pages.steps.sentence_example import SentenceExample
from attnviz.pages.steps.translator_example import TranslatorExample
from attnviz.translator import VARIANTS
from attnviz.translator.encoder_decoder import HEADS, LAYERS, USES

SELF, CROSS, TRANSLATOR = N_("Self"), N_("Cross"), N_("Translator")
SUM, WHY_SCALE, PREDICT = N_("Sum"), N_("Why scale"), N_("Predict")
SECOND = "die Katze setzte sich"
MASKS: dict[str, Mask] = {N_("Full"): Full(), N_("Causal"): Causal()}
SIMILARITIES = {variant.capitalize(): variant for variant in VARIANTS}  # named as on other pages, which share the link
ABOUT_SIMILARITY = N_(
    "How a French word is compared with each English word, in the encoder–decoder attention. "
    "Each choice is a translator of its own, trained with it.\n\n**Scaled dot:** q · k / √d\n\n**Dot:** q · k\n\n"
    "**General:** qᵀ W k\n\n**Additive:** vᵀ tanh(W_q q + W_k k)"
)
_LIMITS = {one.name: one.metadata for one in fields(SentenceExample)}


def has_sentence(state: Any) -> bool:
    return state.attention != TRANSLATOR


def has_translator(state: Any) -> bool:
    return state.attention == TRANSLATOR


def number_field(name: str) -> NumberField:
    about = _LIMITS[name]
    start, limits = getattr(SentenceExample, name), (about["min"], about["max"])
    return NumberField(about["label"], start, *limits, when=has_sentence, place="more")


def has_cell(matrix: Matrix, row: int, column: int) -> bool:
    return row < len(matrix.rows) and column < len(matrix.columns)


def by_number(count: int) -> Mapping[str, int]:
    return {str(number): number for number in range(count)}


def computed_steps(example: StepsExample, edits: Edits) -> Steps:
    """Returns the computed example. Raises ValueError if it cannot be written out with these edits."""
    return result_cache().once(lambda: compute_steps(example, edits), "steps", example, format_edits(edits))


def query_rows(state: Any) -> Mapping[str, int]:
    tokens = computed_steps(state.example, {}).inputs.query_tokens
    return {name: row for row, name in enumerate(numbered_tokens(range(len(tokens)), tokens))}


class StepsState(State):
    """An example small enough to be written out, the numbers in it that are edited, a head and a query."""

    attention = ChoiceField(
        N_("Attention"),
        (SELF, CROSS, TRANSLATOR),
        place="more",
        about=N_(
            "**Self**: keys and values from the same sentence. **Cross**: keys and values from a second sentence. "
            "**Translator**: a head of the small translator of the Transformer page."
        ),
    )
    sentence = TextField(
        N_("Sentence"), SentenceExample.text, when=has_sentence, about=N_("Use 2 to 8 words."), place="side"
    )
    second = TextField(
        N_("Second sentence"),
        SECOND,
        when=lambda state: state.attention == CROSS,
        about=N_("Keys and values are made from it."),
        place="more",
    )
    d_k = number_field("d_k")
    heads = number_field("heads")
    head_shown = ChoiceField(
        N_("Head shown"),
        lambda state: {name: head for head, name in enumerate(head_names(state.heads))},
        when=lambda state: has_sentence(state) and state.heads > 1,
        place="more",
    )
    masked = ChoiceField(
        N_("Mask"), MASKS, when=has_sentence, about=N_("Causal: no key after the query."), place="more"
    )
    biases = PartsField(N_("Biases"), BIASES, lambda _state: (), when=has_sentence, about=ABOUT_BIASES, place="more")
    english = TextField(N_("English"), TranslatorExample.english, when=has_translator, place="side")
    similarity = ChoiceField(N_("Similarity"), SIMILARITIES, when=has_translator, about=ABOUT_SIMILARITY, place="more")
    translator_use = ChoiceField(
        N_("Use"),
        {name: use for use, name in USES.items()},
        lambda _state: TranslatorExample.use,
        when=has_translator,
        place="more",
    )
    translator_layer = ChoiceField(N_("Layer"), by_number(LAYERS), when=has_translator, place="more")
    translator_head = ChoiceField(N_("Head"), by_number(HEADS), when=has_translator, place="more")
    edits = ParsedField[Edits](N_("Edits"), parse_edits, {}, text=format_edits, place="hidden")
    stage = TextField("stage", place="hidden")
    query = ChoiceField(N_("Query"), query_rows, lambda state: min(1, len(query_rows(state)) - 1), place="side")
    part = ChoiceField(N_("Tab"), (SUM, WHY_SCALE, PREDICT))
    width = ScaleField(N_("Width d of the vectors"), WIDTHS, lambda _state: 64, parameter="d")

    @property
    def example(self) -> StepsExample:
        """The example without its edits. Raises ValueError if it cannot be written out."""
        if self.attention == TRANSLATOR:
            return TranslatorExample(
                self.english, self.similarity, self.translator_use, self.translator_layer, self.translator_head
            )
        second = self.second if self.attention == CROSS else None
        return SentenceExample(self.sentence, second, int(self.d_k), int(self.heads), self.masked, self.biases)

    @property
    def steps(self) -> Steps:
        """The example with its edits, computed. Raises ValueError if it cannot be written out with them."""
        return computed_steps(self.example, self.fitting_edits)

    @property
    def fitting_edits(self) -> Edits:
        """The edited numbers that have a place in the example."""
        matrices = computed_steps(self.example, {}).matrices
        fitting = {
            name: {place: value for place, value in cells.items() if has_cell(matrices[name], *place)}
            for name, cells in self.edits.items()
            if name in matrices
        }
        return {name: cells for name, cells in fitting.items() if cells}
