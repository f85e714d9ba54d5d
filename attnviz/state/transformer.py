"""What a link to Transformer says."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from attnviz.formatting import grouped, numbered_tokens
from attnviz.language import N_, current_language, in_sentence, language, option_name
from attnviz.layer import head_option
from attnviz.masks import Causal, Full, Mask
from attnviz.models.interventions import Intervention
from attnviz.normalizers import Softmax
from attnviz.result_cache import result_cache
from attnviz.state.fields import ChoiceField, ChoicesField, TextField
from attnviz.state.head_state import NO_QUERY, query_name
from attnviz.state.intervention_fields import ABLATION_HELP, changed_parts, part_fields
from attnviz.state.state import State
from attnviz.state.steps import ABOUT_SIMILARITY, SIMILARITIES
from attnviz.translator import EXAMPLES, Translation, Translator, load, training_log
from attnviz.translator.encoder_decoder import HEADS, LAYERS, USE_LAYERS, USES, Use
from attnviz.translator.training_history import TrainingHistory, training_history

THREE_USES, WHAT_IF, FORMS = N_("Three uses"), N_("What if"), N_("How attention forms")
SYMBOLS, BEFORE, SEVERAL = N_("In symbols"), N_("Before attention"), N_("Several heads")
SHORT: dict[Use, str] = {"encoder": N_("Encoder"), "decoder": N_("Decoder"), "cross": N_("Encoder–decoder")}
HEAD_NAME = N_("Layer #, head #")  # an option of menus
HEAD_PARTS = N_("Layer #"), N_("head #")
HEAD_NAMES = tuple(head_option(f"Layer {layer}", head) for layer in range(LAYERS) for head in range(HEADS))
# In these heads of the shipped weights adjectives look at their noun, and the word before "pas" at "ne".
NOUNS = {"scaled dot": 7, "dot": 4, "general": 7, "additive": 7}
NEGATION = 7
BEST = N_("Encoder–decoder, the head that agrees best in the end")
BETWEEN = ", "  # a use and a head
MAPS: dict[str, tuple[Use, int] | None] = {BEST: None} | {
    f"{SHORT[use]}{BETWEEN}{name.lower()}": (use, head)
    for use in reversed(USES)
    for head, name in enumerate(HEAD_NAMES)
}
MASKS: dict[Use, Mask] = {"encoder": Full(), "decoder": Causal(), "cross": Full()}  # with which it was trained


def is_tab(tab: str) -> Callable[[Any], bool]:
    """Returns the condition that a tab is open."""
    return lambda state: state.tab == tab


def agreement(translator: Translator) -> list[float]:
    """Returns the agreement of each head of the encoder–decoder attention with the true alignment, on test
    sentences."""
    return [share for heads in training_log(translator.variant).evaluations[-1].agreement for share in heads]


def first_head(use: Use, translator: Translator) -> int:
    """Returns the default head of a use.

    In the encoder, adjectives attend to their nouns there; in the decoder, the word before "pas" attends to "ne"; for
    encoder–decoder attention it is the head that agrees most with the true alignment.
    """
    if use == "cross":
        return int(np.argmax(agreement(translator)))
    return NOUNS[translator.variant] if use == "encoder" else NEGATION


def row_options(state: Any) -> Mapping[str, int | None]:
    english = state.translation.english
    return {NO_QUERY: None} | {name: row for row, name in enumerate(numbered_tokens(range(len(english)), english))}


def opening_step(translation: Translation) -> int:
    """Returns the first step that breaks the English word order, by the true alignment, or else the middle step."""
    true = translation.alignment or ()
    overtaking = (i for i, keys in enumerate(true) if any(max(keys) > min(later) for later in true[i + 1 :]))
    return next(overtaking, (len(translation.steps) - 1) // 2)


def map_name(option: str, code: str | None = None) -> str:
    """Returns the name of an option of the menu of maps, in a language, by default the current one."""
    short, between, head = option.partition(BETWEEN)
    if option == BEST or not between:
        return option_name(option, code)
    return f"{option_name(short, code)}{BETWEEN}{in_sentence(head.capitalize(), code)}"


def step_name(option: str, code: str | None = None) -> str:
    """Returns the name of a step of training."""
    with language(code or current_language()):
        return grouped(int(option)) if option.isdecimal() else option


def head_field(use: Use) -> ChoiceField[int]:
    """Returns the field of the selected head of a use, numbered across layers."""
    options = {name: head for head, name in enumerate(HEAD_NAMES)}
    return ChoiceField(USES[use], options, lambda state: first_head(use, state.translator))


def use_field(opening: Use, names: Mapping[Use, str] = USES, **options: Any) -> ChoiceField[Use]:
    uses: Mapping[str, Use] = {name: use for use, name in names.items()}
    return ChoiceField(N_("Use of attention"), uses, lambda _state: opening, **options)


def ablated_field() -> ChoicesField:
    """Returns the field of the ablated heads of a layer of a use."""
    heads = {str(head): head for head in range(HEADS)}
    return ChoicesField(N_("Ablated in layer {layer}"), heads, about=ABLATION_HELP, when=is_tab(WHAT_IF))


def training_steps(state: Any) -> Mapping[str, int]:
    return {str(each.step): each.step for each in state.history.checkpoints}


HEAD_FIELDS = {use: head_field(use) for use in USES}
PART_FIELDS = {use: part_fields(use, MASKS[use], Softmax(), when=is_tab(WHAT_IF)) for use in USES}
ABLATED_FIELDS = {use: (ablated_field(), ablated_field()) for use in USES}  # of each layer


class TransformerState(State):
    """A sentence, a translator and a step of its translation, a head of each use of attention, and an open tab."""

    similarity = ChoiceField(N_("Similarity"), SIMILARITIES, about=ABOUT_SIMILARITY)
    encoder_head, decoder_head, cross_head = HEAD_FIELDS.values()
    english = TextField(N_("English"), EXAMPLES[0])
    step = ChoiceField(
        N_("Word by word"), lambda state: {str(step + 1): step for step in range(len(state.translation.steps))},
        lambda state: opening_step(state.translation), parameter="word",
    )  # fmt: skip
    tab = ChoiceField(N_("Tab"), {name: name for name in (THREE_USES, WHAT_IF, FORMS, SYMBOLS, BEFORE, SEVERAL)})
    encoder_row = ChoiceField[int | None](
        N_("Pinned query"), row_options, option_name=query_name, when=is_tab(THREE_USES)
    )
    change = use_field("decoder", SHORT, when=is_tab(WHAT_IF))
    encoder_mask, encoder_score, encoder_normalizer = PART_FIELDS["encoder"]
    decoder_mask, decoder_score, decoder_normalizer = PART_FIELDS["decoder"]
    cross_mask, cross_score, cross_normalizer = PART_FIELDS["cross"]
    encoder_off_0, encoder_off_1 = ABLATED_FIELDS["encoder"]
    decoder_off_0, decoder_off_1 = ABLATED_FIELDS["decoder"]
    cross_off_0, cross_off_1 = ABLATED_FIELDS["cross"]
    training_step = ChoiceField(
        N_("Steps of training"), training_steps, lambda state: state.history.steps, option_name=step_name,
        when=is_tab(FORMS), parameter="step",
    )  # fmt: skip
    shown_map = ChoiceField(N_("Map"), MAPS, parameter="map", option_name=map_name, when=is_tab(FORMS))
    symbols_of = use_field("encoder", when=is_tab(SYMBOLS))
    heads_of = use_field("decoder", when=is_tab(SEVERAL))

    @property
    def translator(self) -> Translator:
        """The translator as it was trained."""
        return load(self.similarity)

    @property
    def translation(self) -> Translation:
        """The translation as trained. Raises ValueError if the sentence has words that the translator does not know."""
        return self._translated(())

    @property
    def changed(self) -> Translation:
        """The translation under the interventions. Raises ValueError as `translation`, or if they cannot be run."""
        return self._translated(self.interventions)

    @property
    def heads(self) -> Mapping[Use, int]:
        """The selected head of each use, numbered across layers."""
        return {use: self.values[field.name] for use, field in HEAD_FIELDS.items()}

    @property
    def interventions(self) -> tuple[Intervention, ...]:
        """What is changed: an intervention for each use that is."""
        return tuple(each for each in map(self.intervention, USES) if not each.is_empty)

    def intervention(self, use: Use) -> Intervention:
        """Returns the intervention in one use."""
        parts = changed_parts(PART_FIELDS[use], [self.values[field.name] for field in PART_FIELDS[use]])
        ablated = [
            (layer, head)
            for layer, field in zip(USE_LAYERS[use], ABLATED_FIELDS[use], strict=True)
            for head in self.values[field.name]
        ]
        return Intervention(**parts, ablated=tuple(ablated), layers=USE_LAYERS[use])

    @property
    def history(self) -> TrainingHistory:
        """The recorded training."""
        return training_history()

    def _translated(self, interventions: tuple[Intervention, ...]) -> Translation:
        return result_cache().once(
            lambda: self.translator.translate(self.english, interventions),
            "translation", self.similarity, self.english, interventions,
        )  # fmt: skip
