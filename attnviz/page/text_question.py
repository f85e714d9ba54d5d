"""A question about what a model says after a text, or what it makes of it."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal
from weakref import WeakKeyDictionary

from attnviz.attribution.text_attribution import TextAttribution, read_text
from attnviz.base.formatting import numbered_tokens
from attnviz.base.language import N_, option_name, option_with_name, value_error
from attnviz.base.link import Link
from attnviz.base.text import EXAMPLE
from attnviz.effects.ablation import Head
from attnviz.layer import head_option, head_option_name
from attnviz.models import SMOLLM2, TRANSLATOR
from attnviz.page.fields import ChoiceField, Field, ModelField, TextField
from attnviz.page.result_cache import ResultCache
from attnviz.page.state import State
from attnviz.sources import Model
from attnviz.sources.model import example_text

if TYPE_CHECKING:
    from attnviz.models.model import LoadedModel  # with huggingface_hub

MARY = "When Mary and John went to the store, John gave the ball to"
AVERAGE: dict[str, Literal["mean"]] = {N_("the average key"): "mean"}
SAYING = ("next token", "labels")  # outputs of models that say something
AVERAGE_TOKEN, AUTOMATIC = N_("the average token"), N_("automatic")
MOST_TEXTS = 2  # of a model whose passes are kept
FORWARDS = 4  # that a first question takes about

# With the numbers of a forward pass, which they keep in memory: they end with the model.
_texts: "WeakKeyDictionary[LoadedModel, ResultCache]" = WeakKeyDictionary()


def named_positions(tokens: tuple[str, ...]) -> Mapping[str, int]:
    return {name: position for position, name in enumerate(numbered_tokens(range(len(tokens)), tokens))}


def token_name(option: str, code: str | None = None) -> str:
    """Returns a position in a menu; tokens are not messages."""
    return option_name(option, code) if option in AVERAGE else option


def position_field(when: Callable[[Any], bool]) -> ChoiceField[int]:
    """Returns the field of the position whose logits are asked for."""
    return ChoiceField(
        N_("After"),
        lambda state: named_positions(state.predicting),
        lambda state: state.opening_position,
        when=lambda state: when(state) and not state.run.names_labels,
        parameter="after",
        option_name=token_name,
    )


def token_field(when: Callable[[Any], bool]) -> TextField:
    """Returns the field of the token, or label, that is said."""
    return TextField(
        N_("Says"), lambda state: state.likeliest_name(0) if when(state) else "", parameter="says", when=when
    )


def other_field(when: Callable[[Any], bool]) -> TextField:
    """Returns the field of the token, or label, that it is compared with."""
    return TextField(
        N_("Rather than"), lambda state: state.other_name if when(state) else "", parameter="rather-than", when=when
    )


def all_heads(state: Any) -> dict[str, Head]:
    """Returns the heads by their names in menus and links."""
    layers = zip(state.run.layers, state.run.heads, strict=True)
    return {head_option(name, head): (i, head) for i, (name, count) in enumerate(layers) for head in range(count)}


def chosen_head_field(heads: Callable[[Any], Mapping[str, Head]]) -> ChoiceField[Head | None]:
    """Returns the field of a head, of these by their names; None for the one that a page shows by itself."""
    return ChoiceField[Head | None](
        N_("Head"),
        lambda state: {AUTOMATIC: None, **heads(state)},
        lambda _state: None,
        option_name=head_option_name,
        parameter="effects-head",
    )


class TextQuestion(State):
    """A text and the model that reads it; a page may ask what it says at a position, with fields of the names
    `position`, `token` and `other`."""

    model = ModelField(SMOLLM2, "why-model", needs_text=True)
    text = TextField(
        N_("Text"), lambda state: MARY if state.model == SMOLLM2 else example_text(state.model, EXAMPLE), place="side"
    )
    written = TextField(
        N_("What the decoder has written"),
        when=lambda state: state.source.model().is_encoder_decoder,
        place="side",
        about=N_("Without a text, what it writes by itself."),
    )

    tabs: ClassVar[tuple[Field[Any], ...]] = ()  # on which it depends what a page reads

    @property
    def reads_text(self) -> bool:
        """Whether what is open depends on the text; of the fields only the model, the text and the tabs are known."""
        return True

    @property
    def asks(self) -> bool:
        """Whether what is open depends on the question."""
        return True

    @property
    def for_any_text(self) -> Link | None:
        """A link to the same text with a model that knows any word, where this one knows few; of the fields only the
        model and the text are known."""
        if self.model != TRANSLATOR:
            return None
        return (type(self).model.parameter, SMOLLM2), (type(self).text.parameter, self.text)

    @property
    def source(self) -> Model:
        """The text and the model that reads it."""
        return Model(self.text, self.model, self.values.get("written", ""), text_alone=True)

    @property
    def run(self) -> TextAttribution:
        """The pass of the model over the text. Raises ValueError if the model cannot read it."""
        self.check_modality()
        source = self.source
        texts = _texts.setdefault(source.model(), ResultCache(MOST_TEXTS))
        return texts.once(self.new_run, source, work=FORWARDS * source.forward_work)

    def new_run(self) -> TextAttribution:
        """Returns the pass of the model over the text. Raises ValueError if the model cannot read it."""
        source = self.source
        return read_text(source.model(), source.text, source.pair or None, source.forward_work)

    def check_modality(self) -> None:
        """Raises ValueError if the model does not read text."""
        if not self.source.model().reads_text_alone:
            raise value_error(
                "{name} sees images. This page is for models that read text; Explore shows where this one looks.",
                name=self.source.model().name,
            )

    @property
    def predicting(self) -> tuple[str, ...]:
        """The tokens after which it may be asked what the model says."""
        return self.run.predicting

    @property
    def opening_position(self) -> int:
        """The last position; of what a decoder has written by itself one before its end."""
        return self.run.opening_position % len(self.run.predicting)

    def likeliest_name(self, rank: int) -> str:
        """Returns the name of the likeliest token, or label, or of one below it."""
        likeliest = self.run.likeliest(self.values["position"], rank + 1)
        return self.run.name(likeliest[min(rank, len(likeliest) - 1)][0])

    @property
    def other_name(self) -> str:
        """The name of the token that the one which is said is compared with at first; empty if there is no other."""
        is_example = (self.model, self.text) == (SMOLLM2, MARY)
        names = "John" if is_example else self.likeliest_name(1), self.likeliest_name(0)
        return next((name for name in names if name != self.values["token"]), "")

    @property
    def tokens(self) -> tuple[int, int | Literal["mean"]]:
        """The token, or the label, that is said, and the one that it is compared with. Raises ValueError if there is
        none of the name."""
        return self.named_tokens(self.values["token"], self.values["other"])

    def named_tokens(self, token: str, other: str) -> tuple[int, int | Literal["mean"]]:
        """Returns the tokens, or labels, of two names; of the second one the mean, if it is empty or names that. Raises
        ValueError as `tokens`."""
        is_mean = not other or option_with_name(other, [AVERAGE_TOKEN]) is not None
        return self.run.token_id(token), "mean" if is_mean else self.run.token_id(other)
