"""What a link to Transformer says."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from attnviz.base.cached_property import cached_property
from attnviz.base.formatting import grouped, numbered_tokens
from attnviz.base.language import N_, current_language, language
from attnviz.base.text import EXAMPLE
from attnviz.layer import Kind, Layer
from attnviz.models import SMOLLM2, TRANSLATOR
from attnviz.page.fields import ABOUT_TEMPERATURE, ChoiceField, ModelField, NumberField, SteppedField, TextField
from attnviz.page.head_state import NO_QUERY, query_name
from attnviz.page.result_cache import ResultCache
from attnviz.page.source_field import short_layers
from attnviz.page.text_question import TextQuestion
from attnviz.pages.transformer.activation import ActivationRecord
from attnviz.pages.transformer.model_activations import MOST_TOKENS, model_activations
from attnviz.pages.transformer.sampling import NextWord
from attnviz.sources.model import example_text
from attnviz.sources.written import PROMPT
from attnviz.translator import Translation, parse_sentence, tokenize
from attnviz.translator.encoder_decoder import USES, Use
from attnviz.translator.training_history import Checkpoint, training_history

if TYPE_CHECKING:
    from attnviz.models.model import LoadedModel  # with huggingface_hub

FORWARD_PASS, THREE_USES, TRAINING = N_("Forward pass"), N_("Three uses"), N_("How attention forms")
BEFORE_ATTENTION, SYMBOLS, SEVERAL_HEADS = N_("Before attention"), N_("In symbols"), N_("Several heads")
NOTHING = N_("nothing")
FIRST_WORD = 3
WHOLE = "model"  # what is open at first
MOST_DRAWS = 999
MOST_RECORDS = 4  # of the latest texts of a model
# Of the translator: there adjectives look at their noun, and the word before “pas” at “ne”.
ADJECTIVES, NEGATION = (1, 3), (1, 3)

# With the weights of the model, which they keep in memory: they end with it.
_records: "WeakKeyDictionary[LoadedModel, ResultCache]" = WeakKeyDictionary()


def is_translator(state: Any) -> bool:
    return bool(state.model == TRANSLATOR)


def has_decoder(state: Any) -> bool:
    """Returns whether the model has an encoder and a decoder."""
    return bool(state.source.model().is_encoder_decoder)


def writes(state: Any) -> bool:
    """Returns whether the model gives a next token."""
    return has_decoder(state) or bool(state.source.model().is_decoder_only)


def is_tab(tab: str) -> Callable[[Any], bool]:
    """Returns the condition that a tab is open."""
    return lambda state: bool(state.tab == tab)


def offered_tabs(state: Any) -> Sequence[str]:
    return (FORWARD_PASS, THREE_USES, *([TRAINING] if is_translator(state) else []))


def words_to_write(state: Any) -> Mapping[str, int]:
    return {str(number): number for number in range(1, min(len(state.decoder_tokens), MOST_TOKENS) + 1)}


def parts(state: Any) -> Mapping[str, str]:
    """Returns the names of what can be opened: layers, then their parts; empty for the whole model."""
    record = state.record
    return {WHOLE: ""} | {name: name for name in (*record.layers, *record)}


def training_steps(_state: Any) -> Mapping[str, int]:
    return {str(each.step): each.step for each in training_history().checkpoints}


def step_name(option: str, code: str | None = None) -> str:
    """Returns the name of a step of training."""
    with language(code or current_language()):
        return grouped(int(option)) if option.isdecimal() else option


def use_of(layer: Layer) -> Use:
    """Returns the use of attention in a layer."""
    if layer.id.cross:
        return "cross"
    return "decoder" if layer.kind is Kind.CAUSAL or layer.id.stack == "decoder" else "encoder"


def first_head(state: Any, use: Use) -> tuple[int, int]:
    """Returns the first head; of the translator one whose words look where a reader would."""
    if not is_translator(state):
        return 0, 0
    if use == "cross":
        agreement = np.array(training_history().checkpoints[-1].evaluation.agreement)
        layer, head = np.unravel_index(agreement.argmax(), agreement.shape)
        return int(layer), int(head)
    return ADJECTIVES if use == "encoder" else NEGATION


def head_field(use: Use) -> ChoiceField[tuple[int, int]]:
    """Returns the field of the selected head of a use: its layer, and its number there."""

    def heads(state: Any) -> Mapping[str, tuple[int, int]]:
        layers = state.uses.get(use, [])
        return {f"{i}.{head}": (i, head) for i, layer in enumerate(layers) for head in range(layer.inputs.heads)}

    return ChoiceField(
        USES[use],
        heads,
        lambda state: first_head(state, use),
        place="hidden",
        when=lambda state: state.tab != FORWARD_PASS and use in state.uses,
    )


def row_options(state: Any) -> Mapping[str, int | None]:
    tokens = next(iter(state.uses.values()))[0].inputs.query_tokens
    return {NO_QUERY: None} | {name: row for row, name in enumerate(numbered_tokens(range(len(tokens)), tokens))}


def draws_word(state: Any) -> bool:
    return bool(state.tab == FORWARD_PASS and writes(state))


class TransformerState(TextQuestion):
    """A model and a text that it reads, a tab, and in it what is open."""

    model = ModelField(TRANSLATOR, "transformer-model", needs_text=True)
    text = TextField(
        N_("Text"), lambda state: example_text(state.model, PROMPT if state.model == SMOLLM2 else EXAMPLE), place="side"
    )
    written = TextField(
        N_("What the decoder has written"),
        when=has_decoder,
        place="more",
        about=N_("Without a text, what it writes by itself."),
    )
    tab = ChoiceField(N_("Tab"), offered_tabs)
    word = SteppedField(
        N_("Word to write"),
        words_to_write,
        lambda state: min(FIRST_WORD, len(words_to_write(state))),
        when=lambda state: state.tab != TRAINING and has_decoder(state),
    )
    temperature = NumberField(N_("Temperature"), 1.0, 0.0, 3.0, 6, when=draws_word, about=ABOUT_TEMPERATURE)
    draw = NumberField(N_("Draw"), 0, 0, MOST_DRAWS, when=draws_word, place="hidden")
    open = ChoiceField(N_("Open"), parts, when=is_tab(FORWARD_PASS), place="hidden")
    head = ChoiceField(
        N_("Head"),
        lambda state: {str(head): head for head in range(state.record.heads)},
        parameter="path-head",
        when=is_tab(FORWARD_PASS),
        place="hidden",
    )
    unfolded = ChoiceField(
        N_("Unfolded"), (NOTHING, BEFORE_ATTENTION, SYMBOLS, SEVERAL_HEADS), when=is_tab(FORWARD_PASS), place="hidden"
    )
    training_step = SteppedField(
        N_("Steps of training"),
        training_steps,
        lambda _state: training_history().steps,
        option_name=step_name,
        when=is_tab(TRAINING),
        parameter="step",
    )
    encoder_head, decoder_head, cross_head = (head_field(use) for use in USES)
    row = ChoiceField[int | None](
        N_("Pinned query"), row_options, option_name=query_name, when=is_tab(THREE_USES), place="hidden"
    )

    tabs = (tab,)

    @property
    def asks(self) -> bool:
        return False

    @cached_property
    def layers(self) -> Sequence[Layer]:
        """The attention of the model on the text. Raises ValueError if it does not take the text."""
        self.check_modality()
        return short_layers(self.source)

    @property
    def decoder_tokens(self) -> tuple[str, ...]:
        """What a decoder with an encoder has read in the end; nothing where there is none."""
        if not has_decoder(self):
            return ()
        return next(layer.inputs.query_tokens for layer in self.layers if use_of(layer) == "cross")

    @cached_property
    def uses(self) -> Mapping[Use, Sequence[Layer]]:
        """The layers of each use of attention that the model has; how they were at a step of the training, if that is
        open."""
        layers = self.forced.layers() if self.tab == TRAINING else self.layers
        used: dict[Use, list[Layer]] = {use: [layer for layer in layers if use_of(layer) == use] for use in USES}
        return {use: layers for use, layers in used.items() if layers}

    @property
    def heads(self) -> Mapping[Use, tuple[int, int]]:
        """The selected head of each use."""
        return {use: self.values[f"{use}_head"] for use in self.uses}

    @cached_property
    def record(self) -> ActivationRecord:
        """The activations of the forward pass. Raises ValueError if the model does not take the text."""
        self.check_modality()
        source, model = self.source, self.source.model()
        count = int(self.word) if has_decoder(self) else MOST_TOKENS
        records = _records.setdefault(model, ResultCache(MOST_RECORDS))
        return records.once(
            lambda: model_activations(model, source.text, source.pair or None, count),
            source,
            count,
            work=source.forward_work,
        )

    @property
    def next_word(self) -> NextWord | None:
        """The choice of the next token, of a model that writes."""
        logits = self.record.get("output logits")
        if logits is None:
            return None
        return NextWord(logits.columns, logits.values[0], self.temperature, int(self.draw))

    @property
    def checkpoint(self) -> Checkpoint:
        """The translator at the step of its training."""
        return next(each for each in training_history().checkpoints if each.step == self.training_step)

    @cached_property
    def forced(self) -> Translation:
        """What the translator does at that step when it is given the right French words, or where they are not known,
        those that it writes in the end. Raises ValueError if it does not know a word."""
        english = tokenize(self.text)
        right = parse_sentence(english)
        final = training_history().checkpoints[-1].translator()
        french = right.french if right else final.translate(self.text).french
        return self.checkpoint.translator().teacher_forced(english, french)

    @property
    def alignment(self) -> tuple[tuple[int, ...], ...]:
        """For each French word the positions of the English words that it translates; none where they are not known."""
        right = parse_sentence(tokenize(self.text)) if is_translator(self) else None
        if right is None:
            return ()
        is_right = self.tab == TRAINING or self.decoder_tokens[1:] == right.french
        return right.alignment if is_right else ()
