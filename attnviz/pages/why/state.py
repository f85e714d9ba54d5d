"""What a link to Why says."""

from collections.abc import Hashable
from typing import Any, ClassVar, Literal

from attnviz.attribution.metrics import Logit, LogitDifference, Metric, Score
from attnviz.attribution.sum_term import SumTerm, format_term, parse_term
from attnviz.attribution.trail import TrailStep, format_trail, parse_trail
from attnviz.base.language import N_, _, value_error
from attnviz.models import SMOLLM2
from attnviz.page.fields import ChoiceField, Field, FlagField, ParsedField, optional_choice
from attnviz.page.head_numbers import Place, mlp_option, writer_option_name
from attnviz.page.picture_question import PictureQuestion, sees_picture
from attnviz.page.state import State
from attnviz.page.text_list import BETWEEN, MeasuredText, measured_texts, names_tokens, text_refusal, texts_field
from attnviz.page.text_question import (
    AUTOMATIC,
    AVERAGE,
    MARY,
    SAYING,
    all_heads,
    named_positions,
    other_field,
    position_field,
    token_field,
    token_name,
)

THIS_TEXT, MANY_TEXTS, THIS_PICTURE = N_("This text"), N_("Many texts"), N_("This image")  # tabs
LOGIT_QUESTION, SCORE_QUESTION = N_("What it says"), N_("Where a head looks")
EMBEDDINGS, CONSTANT = N_("embeddings"), N_("constant")
OF_TEXTS = ("inspect", "many", "writer")  # fields that have nothing to do with the sum of the text
SIDES: dict[str, Literal["key", "query"]] = {N_("the key"): "key", N_("the query"): "query"}


def sums_many(state: Any) -> bool:
    return bool(state.inspect == MANY_TEXTS)


def is_logit_question(state: Any) -> bool:
    return bool(state.question == LOGIT_QUESTION)


def is_score_question(state: Any) -> bool:
    return bool(state.question == SCORE_QUESTION)


def questions(state: Any) -> list[str]:
    return [LOGIT_QUESTION, SCORE_QUESTION] if state.source.model().outputs in SAYING else [SCORE_QUESTION]


def question_of(state: Any) -> Hashable:
    """Returns the question of a state."""
    return tuple(value for name, value in state.values.items() if name not in (*SumState.names, *OF_TEXTS))


def sum_of(state: Any) -> Hashable:
    """Returns the sum that a state opens."""
    return question_of(state), state.trail


def writer_places(state: Any) -> dict[str, Place]:
    """Returns what writes, by its name in menus and links, with its place among the numbers of heads."""
    heads, columns = all_heads(state), max(state.run.heads)
    mlps = {mlp_option(state.run.ids[layer]): (layer, columns) for layer in state.run.mlp_layers}
    return heads | mlps | {EMBEDDINGS: (-1, columns), CONSTANT: (-1, 0)}


class SumState(State):
    """The terms of a sum that have been opened, and the term that is shown."""

    names: ClassVar = ("trail", "tree", "term")
    trail = ParsedField[tuple[TrailStep, ...]](
        N_("Opened terms"), parse_trail, (), text=format_trail, subject=question_of, place="hidden"
    )
    tree = FlagField(
        N_("Five steps"), about=N_("Draws all terms of at least 5 %, and those of what heads read, five sums deep.")
    )
    term = ParsedField[SumTerm | None](N_("Term"), parse_term, None, text=format_term, subject=sum_of, place="hidden")


class WhyState(PictureQuestion):
    """A number that a model computes, the terms that have been opened, and the term that is shown."""

    inspect = ChoiceField(N_("Tab"), lambda state: (THIS_PICTURE,) if sees_picture(state) else (THIS_TEXT, MANY_TEXTS))
    question = ChoiceField(N_("Question"), questions, place="more", when=lambda state: not sums_many(state))
    position = position_field(is_logit_question)
    token, other = token_field(is_logit_question), other_field(is_logit_question)
    layer = ChoiceField(
        N_("Layer"),
        lambda state: {name: i for i, name in enumerate(state.run.layers)},
        lambda state: state.opening_head[0],
        parameter="why-layer",
        when=is_score_question,
    )
    head = ChoiceField(
        N_("Head"),
        lambda state: {str(head): head for head in range(state.run.heads[state.layer])},
        lambda state: min(state.opening_head[1], state.run.heads[state.layer] - 1),
        parameter="why-head",
        when=is_score_question,
    )
    query = ChoiceField(
        N_("From"),
        lambda state: named_positions(state.run.queries(state.layer)),
        lambda state: state.opening_query,
        parameter="why-from",
        when=is_score_question,
        option_name=token_name,
    )
    key = ChoiceField(
        N_("At"),
        lambda state: named_positions(state.run.keys(state.layer)),
        lambda state: state.strongest_key if is_score_question(state) else 0,
        parameter="why-at",
        when=is_score_question,
        option_name=token_name,
    )
    over = ChoiceField[int | Literal["mean"]](
        N_("Rather than at"),
        lambda state: {**AVERAGE, **named_positions(state.run.keys(state.layer))},
        parameter="why-over",
        when=is_score_question,
        option_name=token_name,
    )
    side = ChoiceField(
        N_("By what wrote"),
        SIDES,
        parameter="why-side",
        place="more",
        when=is_score_question,
        about=N_("A score is a product of the query and the key. One of them is held, and the other is a sum."),
    )
    trail, tree, term = SumState.trail, SumState.tree, SumState.term
    many = texts_field(sums_many)
    writer = optional_choice(
        N_("What wrote it"),
        AUTOMATIC,
        writer_places,
        parameter="share-of",
        when=sums_many,
        option_name=writer_option_name,
    )

    tabs = (inspect,)

    @property
    def reads_text(self) -> bool:
        return not (sums_many(self) or sees_picture(self))  # which have texts of their own, or none

    @property
    def asks(self) -> bool:
        return not (sums_many(self) and names_tokens(self.values.get("many", ""), 2))

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

    @property
    def metric(self) -> Metric:
        """The number that is asked for."""
        if self.question == SCORE_QUESTION:
            if self.key == self.over:
                raise value_error("The key is compared with itself. Choose another one.")
            return Score(self.layer, self.head, self.query, self.key, self.over, self.side)
        return self._logit_metric(self.values["token"], self.values["other"], self.position)

    @property
    def measured(self) -> list[tuple[MeasuredText, Logit | LogitDifference]]:
        """The texts of the list, each with the number that is asked for after its last token. Raises ValueError if
        there are none, too many or too long ones, or if the model has no token that is named."""
        measured = []
        for number, text in enumerate(measured_texts(self.many), 1):
            names = text.token or self.values["token"], text.other or self.values["other"]
            try:
                measured.append((text, self._logit_metric(*names, -1)))
            except ValueError as problem:
                raise text_refusal(number, problem) from problem
        return measured

    def _logit_metric(self, token_name: str, other_name: str, position: int) -> Logit | LogitDifference:
        token, other = self.named_tokens(token_name, other_name)
        if other == "mean" and self.run.names_labels and len(self.run.logits(0)) == 1:
            return Logit(token)
        if token == other:
            raise value_error("{name} is compared with itself. Choose another one.", name=self.run.token_text(token))
        return LogitDifference(token, other, position)


def question_words(state: WhyState) -> list[tuple[str, Field[Any]]]:
    """Returns the question of a state as a sentence: words, and the fields after them."""
    if state.values.get("inspect") == MANY_TEXTS:  # each is measured after its last token
        named = BETWEEN in state.values.get("many", "")
        first = _("Where a text names no token of its own, why does it say") if named else _("Why does it say")
        return [(first, WhyState.token), (_("rather than"), WhyState.other)]
    if state.values.get("question", LOGIT_QUESTION) == LOGIT_QUESTION:
        return [
            (_("Why does it say"), WhyState.token),
            (_("rather than"), WhyState.other),
            (_("after"), WhyState.position),
        ]
    return [
        (_("Why does"), WhyState.layer),
        (_("head"), WhyState.head),
        (_("look from"), WhyState.query),
        (_("at"), WhyState.key),
        (_("rather than at"), WhyState.over),
    ]
