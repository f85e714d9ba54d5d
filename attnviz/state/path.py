"""What a link to Path says."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from attnviz.language import N_
from attnviz.masks import Causal, Mask
from attnviz.models import MINILM, SMOLLM2, TRANSLATOR
from attnviz.models.interventions import Intervention
from attnviz.path.activation import ActivationRecord
from attnviz.path.model_activations import model_activations
from attnviz.path.sampling import NextWord
from attnviz.path.translator_activations import translator_activations
from attnviz.result_cache import ResultCache, result_cache
from attnviz.sources import Model
from attnviz.sources.written import PROMPT
from attnviz.state.fields import ChoiceField, ModelField, NumberField, PartField, TextField
from attnviz.state.parts import MASK_MENU
from attnviz.state.state import State
from attnviz.text import EXAMPLE
from attnviz.translator import EXAMPLES, Translation, load
from attnviz.translator.encoder_decoder import USE_LAYERS

if TYPE_CHECKING:
    from attnviz.models.model import LoadedModel  # with huggingface_hub

FORMER_NAMES = {N_("Translator"): TRANSLATOR, N_("MiniLM"): MINILM}
FIRST_WORD = 3
WHOLE = "model"  # what is open at first
MOST_DRAWS = 999
MOST_RECORDS = 4  # of the latest texts of a model

# With the weights of the model, which they keep in memory: they end with it.
_records: "WeakKeyDictionary[LoadedModel, ResultCache]" = WeakKeyDictionary()


def is_translator(state: Any) -> bool:
    return state.model == TRANSLATOR


def writes(state: Any) -> bool:
    """Returns whether the model gives a next word."""
    return is_translator(state) or state.source.model().is_decoder_only


def words_to_write(state: Any) -> Mapping[str, int]:
    return {str(number): number for number in range(1, len(state.translation.steps) + 1)}


def parts(state: Any) -> Mapping[str, str]:
    """Returns the names of what can be opened: layers, then their parts; empty for the whole model."""
    record = state.record
    return {WHOLE: ""} | {name: name for name in (*record.layers, *record)}


class PathState(State):
    """A forward pass, the choice of the next word, and what is open."""

    model = ModelField(TRANSLATOR, "path-model", FORMER_NAMES)
    text = TextField(
        N_("Text"), lambda state: PROMPT if state.model == SMOLLM2 else EXAMPLE,
        when=lambda state: not is_translator(state),
    )  # fmt: skip
    english = TextField(N_("English"), EXAMPLES[0], when=is_translator)
    # Of the decoder's self-attention.
    mask = PartField[Mask](N_("Mask"), MASK_MENU, lambda _state: Causal(), parameter="path-mask", when=is_translator)
    word = ChoiceField(
        N_("Word to write"), words_to_write, lambda state: min(FIRST_WORD, len(words_to_write(state))),
        when=is_translator,
    )  # fmt: skip
    temperature = NumberField(N_("Temperature"), 1.0, 0.0, 3.0, 6, when=writes)
    draw = NumberField(N_("Draw"), 0, 0, MOST_DRAWS, when=writes)
    open = ChoiceField(N_("Open"), parts)
    head = ChoiceField(
        N_("Head"), lambda state: {str(head): head for head in range(state.record.heads)}, parameter="path-head"
    )

    @property
    def source(self) -> Model:
        """The text and the model that reads it, where it is not the translator."""
        return Model(self.text, self.model)

    @property
    def interventions(self) -> tuple[Intervention, ...]:
        """The mask of the decoder's self-attention, if it is changed."""
        return () if self.mask == Causal() else (Intervention(self.mask, layers=USE_LAYERS["decoder"]),)

    @property
    def decoder_mask(self) -> Mask | None:
        """The mask of the translator's decoder, which can be changed; None for another model."""
        return self.mask if is_translator(self) else None

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
        if not is_translator(self):
            source, model = self.source, self.source.model()
            records = _records.setdefault(model, ResultCache(MOST_RECORDS))
            return records.once(lambda: model_activations(model, source.text), source, work=source.forward_work)
        english, french = self.translation.english, self.translation.french[: self.word - 1]
        return result_cache().once(
            lambda: translator_activations(load(), english, french, self.interventions),
            "path", TRANSLATOR, english, french, self.interventions,
        )  # fmt: skip

    @property
    def next_word(self) -> NextWord | None:
        """The choice of the next word, of a model that writes."""
        logits = self.record.get("output logits")
        if logits is None:
            return None
        return NextWord(logits.columns, logits.values[0], self.temperature, int(self.draw))
