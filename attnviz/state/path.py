"""What a link to Path says."""

from collections.abc import Mapping
from typing import Any

from attnviz.language import N_
from attnviz.masks import Causal, Mask
from attnviz.models.interventions import Intervention
from attnviz.path.activation import ActivationRecord
from attnviz.path.encoder_activations import encoder_activations
from attnviz.path.sampling import NextWord
from attnviz.path.translator_activations import translator_activations
from attnviz.result_cache import result_cache
from attnviz.sources import Model
from attnviz.state.fields import ChoiceField, NumberField, PartField, TextField
from attnviz.state.parts import MASK_MENU
from attnviz.state.state import State
from attnviz.text import EXAMPLE
from attnviz.translator import EXAMPLES, Translation, load
from attnviz.translator.encoder_decoder import USE_LAYERS

TRANSLATOR, MINILM = N_("Translator"), N_("MiniLM")
FIRST_WORD = 3
WHOLE = "model"  # what is open at first
MOST_DRAWS = 999


def is_translator(state: Any) -> bool:
    return state.model == TRANSLATOR


def words_to_write(state: Any) -> Mapping[str, int]:
    return {str(number): number for number in range(1, len(state.translation.steps) + 1)}


def parts(state: Any) -> Mapping[str, str]:
    """Returns the names of what can be opened: layers, then their parts; empty for the whole model."""
    record = state.record
    return {WHOLE: ""} | {name: name for name in (*record.layers, *record)}


class PathState(State):
    """A forward pass, the choice of the next word, and what is open."""

    model = ChoiceField(N_("Model"), {name: name for name in (TRANSLATOR, MINILM)}, parameter="path-model")
    text = TextField(N_("Text"), EXAMPLE, when=lambda state: state.model == MINILM)
    english = TextField(N_("English"), EXAMPLES[0], when=is_translator)
    # Of the decoder's self-attention.
    mask = PartField[Mask](N_("Mask"), MASK_MENU, lambda _state: Causal(), parameter="path-mask", when=is_translator)
    word = ChoiceField(
        N_("Word to write"), words_to_write, lambda state: min(FIRST_WORD, len(words_to_write(state))),
        when=is_translator,
    )  # fmt: skip
    temperature = NumberField(N_("Temperature"), 1.0, 0.0, 3.0, 6, when=is_translator)
    draw = NumberField(N_("Draw"), 0, 0, MOST_DRAWS, when=is_translator)
    open = ChoiceField(N_("Open"), parts)
    head = ChoiceField(
        N_("Head"), lambda state: {str(head): head for head in range(state.record.heads)}, parameter="path-head"
    )

    @property
    def interventions(self) -> tuple[Intervention, ...]:
        """The mask of the decoder's self-attention, if it is changed."""
        return () if self.mask == Causal() else (Intervention(self.mask, layers=USE_LAYERS["decoder"]),)

    @property
    def translation(self) -> Translation:
        """The whole translation. Raises ValueError if the translator does not know a word."""
        return result_cache().once(
            lambda: load().translate(self.english, self.interventions),
            "path translation", self.english, self.interventions,
        )  # fmt: skip

    @property
    def record(self) -> ActivationRecord:
        """The activations of the forward pass. Raises ValueError if the model does not take the text."""
        if self.model == MINILM:
            source = Model(self.text)
            return result_cache().once(lambda: encoder_activations(source.model(), source.text), "path", source)
        english, french = self.translation.english, self.translation.french[: self.word - 1]
        return result_cache().once(
            lambda: translator_activations(load(), english, french, self.interventions),
            "path", TRANSLATOR, english, french, self.interventions,
        )  # fmt: skip

    @property
    def next_word(self) -> NextWord | None:
        """The choice of the next word, of a model that writes."""
        if not is_translator(self):
            return None
        logits = self.record["output logits"]
        return NextWord(logits.columns, logits.values[0], self.temperature, int(self.draw))
