"""What a link to Why says."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakKeyDictionary

from attnviz.attribution.metrics import Logit, LogitDifference, Metric, Score
from attnviz.attribution.sum_term import SumTerm, format_term, parse_term
from attnviz.attribution.trail import TrailStep, format_trail, parse_trail
from attnviz.formatting import numbered_tokens
from attnviz.language import N_, option_name, option_with_name, value_error
from attnviz.models import SMOLLM2
from attnviz.models.text_attribution import TextAttribution, read_text
from attnviz.result_cache import ResultCache
from attnviz.sources import Model
from attnviz.sources.model import example_text
from attnviz.state.fields import ChoiceField, FlagField, ModelField, ParsedField, TextField
from attnviz.state.state import State
from attnviz.text import EXAMPLE

if TYPE_CHECKING:
    from attnviz.models.model import LoadedModel  # with huggingface_hub

MARY = "When Mary and John went to the store, John gave the ball to"
LOGIT_QUESTION, SCORE_QUESTION = N_("What it says"), N_("Where a head looks")
SAYING = ("next token", "labels")  # outputs of models that say something
AVERAGE: dict[str, Literal["mean"]] = {N_("the average key"): "mean"}
AVERAGE_TOKEN = N_("the average token")
SIDES: dict[str, Literal["key", "query"]] = {N_("the key"): "key", N_("the query"): "query"}
MOST_TEXTS = 2  # of a model whose passes are kept
FORWARDS = 4  # that a first question takes about

# With the numbers of a forward pass, which they keep in memory: they end with the model.
_texts: "WeakKeyDictionary[LoadedModel, ResultCache]" = WeakKeyDictionary()


def is_logit_question(state: Any) -> bool:
    return bool(state.question == LOGIT_QUESTION)


def is_score_question(state: Any) -> bool:
    return bool(state.question == SCORE_QUESTION)


def questions(state: Any) -> list[str]:
    return [LOGIT_QUESTION, SCORE_QUESTION] if state.source.model().outputs in SAYING else [SCORE_QUESTION]


def named_positions(tokens: tuple[str, ...]) -> Mapping[str, int]:
    return {name: position for position, name in enumerate(numbered_tokens(range(len(tokens)), tokens))}


def token_name(option: str, code: str | None = None) -> str:
    """Returns a position in a menu; tokens are not messages."""
    return option_name(option, code) if option in AVERAGE else option


class WhyState(State):
    """A number that a model computes, the terms that have been opened, and the term that is shown."""

    model = ModelField(SMOLLM2, "why-model")
    text = TextField(
        N_("Text"), lambda state: MARY if state.model == SMOLLM2 else example_text(state.model, EXAMPLE),
    )  # fmt: skip
    written = TextField(
        N_("What the decoder has written"), when=lambda state: state.source.model().is_encoder_decoder,
        about=N_("Without a text, what it writes by itself."),
    )  # fmt: skip
    question = ChoiceField(N_("Question"), questions)
    position = ChoiceField(
        N_("After"), lambda state: named_positions(state.run.predicting), lambda state: state.opening_position,
        when=lambda state: is_logit_question(state) and not state.run.names_labels,
        parameter="after", option_name=token_name,
    )  # fmt: skip
    token = TextField(
        N_("Says"), lambda state: state.likeliest_name(0) if is_logit_question(state) else "",
        parameter="says", when=is_logit_question,
    )  # fmt: skip
    other = TextField(
        N_("Rather than"), lambda state: state.other_name if is_logit_question(state) else "",
        parameter="rather-than", when=is_logit_question,
    )  # fmt: skip
    layer = ChoiceField(
        N_("Layer"), lambda state: {name: i for i, name in enumerate(state.run.layers)},
        lambda state: state.opening_head[0], parameter="why-layer", when=is_score_question,
    )  # fmt: skip
    head = ChoiceField(
        N_("Head"), lambda state: {str(head): head for head in range(state.run.heads[state.layer])},
        lambda state: min(state.opening_head[1], state.run.heads[state.layer] - 1),
        parameter="why-head", when=is_score_question,
    )  # fmt: skip
    query = ChoiceField(
        N_("From"), lambda state: named_positions(state.run.queries(state.layer)), lambda state: state.opening_query,
        parameter="why-from", when=is_score_question, option_name=token_name,
    )  # fmt: skip
    key = ChoiceField(
        N_("At"), lambda state: named_positions(state.run.keys(state.layer)),
        lambda state: state.strongest_key if is_score_question(state) else 0,
        parameter="why-at", when=is_score_question, option_name=token_name,
    )  # fmt: skip
    over = ChoiceField[int | Literal["mean"]](
        N_("Rather than at"), lambda state: {**AVERAGE, **named_positions(state.run.keys(state.layer))},
        parameter="why-over", when=is_score_question, option_name=token_name,
    )  # fmt: skip
    side = ChoiceField(
        N_("By what wrote"), SIDES, parameter="why-side", when=is_score_question,
        about=N_("A score is a product of the query and the key. One of them is held, and the other is a sum."),
    )  # fmt: skip
    trail = ParsedField[tuple[TrailStep, ...]](N_("Opened terms"), parse_trail, (), text=format_trail)
    tree = FlagField(
        N_("Five steps"), about=N_("Draws all terms of at least 5 %, and those of what heads read, five sums deep."),
    )  # fmt: skip
    term = ParsedField[SumTerm | None](N_("Term"), parse_term, None, text=format_term)

    @property
    def source(self) -> Model:
        """The text and the model that reads it."""
        return Model(self.text, self.model, self.values.get("written", ""))

    @property
    def run(self) -> TextAttribution:
        """The pass of the model over the text. Raises ValueError if the model cannot read it."""
        source, model = self.source, self.source.model()
        if model.modality != "text":
            raise value_error("{name} sees images. Why is asked of models that read text.", name=self.model)
        texts = _texts.setdefault(model, ResultCache(MOST_TEXTS))
        work = source.forward_work
        return texts.once(
            lambda: read_text(model, source.text, source.pair or None, work), source, work=FORWARDS * work
        )

    @property
    def opening_position(self) -> int:
        """The last position; of what a decoder has written by itself one before its end."""
        return self.run.opening_position % len(self.run.predicting)

    @property
    def opening_head(self) -> tuple[int, int]:
        """A layer, and a head of it."""
        if (self.model, self.text) == (SMOLLM2, MARY):
            return 24, 4  # which looks at “Mary”
        opening = self.source.opening
        return min(opening.layer, len(self.run.layers) - 1), opening.head

    @property
    def opening_query(self) -> int:
        """A query of the layer."""
        count, query = len(self.run.queries(self.layer)), self.source.opening.query
        return query if query is not None and query < count else count - 1

    @property
    def strongest_key(self) -> int:
        """The key that gets most of the query's attention. Raises ValueError if the weights are not known."""
        return int(self.run.weights(self.layer, self.head, self.query).argmax())

    def likeliest_name(self, rank: int) -> str:
        """Returns the name of the likeliest token, or label, or of one below it."""
        likeliest = self.run.likeliest(self.position, rank + 1)
        return self.run.name(likeliest[min(rank, len(likeliest) - 1)][0])

    @property
    def other_name(self) -> str:
        """The name of the token that the one which is said is compared with at first; empty if there is no other."""
        is_example = (self.model, self.text) == (SMOLLM2, MARY)
        names = "John" if is_example else self.likeliest_name(1), self.likeliest_name(0)
        return next((name for name in names if name != self.token), "")

    @property
    def tokens(self) -> tuple[int, int | Literal["mean"]]:
        """The token, or the label, that is said, and the one that it is compared with. Raises ValueError if there is
        none of the name."""
        is_mean = not self.other or option_with_name(self.other, [AVERAGE_TOKEN]) is not None
        return self.run.token_id(self.token), "mean" if is_mean else self.run.token_id(self.other)

    @property
    def metric(self) -> Metric:
        """The number that is asked for."""
        if self.question == SCORE_QUESTION:
            if self.key == self.over:
                raise value_error("The key is compared with itself. Choose another one.")
            return Score(self.layer, self.head, self.query, self.key, self.over, self.side)
        token, other = self.tokens
        if other == "mean" and self.run.names_labels and len(self.run.logits(0)) == 1:
            return Logit(token)
        if token == other:
            raise value_error("{name} is compared with itself. Choose another one.", name=self.run.token_text(token))
        return LogitDifference(token, other, self.position)
