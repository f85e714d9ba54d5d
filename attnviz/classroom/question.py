"""Questions that a class answers, and their answers: options in a list or a table to choose, or a number to write."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Shaped

from attnviz.base.formatting import grouped, visible
from attnviz.base.language import N_, _, plural, value_error
from attnviz.lessons.checks import Check, Choice, NumberCheck, Quantities, Tap, find_quantity, token_weights
from attnviz.lessons.prediction_distance import is_predictable, normalized

MOST_ROWS = MOST_COLUMNS = 64
LONGEST_ASK = 500  # characters
LONGEST_NAME = 200
MOST_PICKS = 64
POINTS = 10
LARGEST_NUMBER = 1e9
LARGEST_JSON = 1 << 20  # characters
TOO_MANY_ROWS = N_("A question has at most {most} rows of options: {count} are too many.")
TOO_MANY_COLUMNS = N_("A question has at most {most} columns of options: {count} are too many.")


@dataclass(frozen=True)
class Question:
    """A question to a class: options are the cells of a table, whose only row has no name where they are a list.

    Who answers picks up to `picks` options, or spreads up to `points` points over them, or writes a number. `truth` is
    the share of each option, row by row, which adds up to 1; it is empty where there is none. `hides` says that the
    picture of the page would give the answer away.

    Raises ValueError for anything that is not such a question.

    Example:
        >>> text_question("Which is right?", ["A", "B"], "B").truth
        (0.0, 1.0)
    """

    ask: str
    rows: tuple[str, ...] = ("",)
    columns: tuple[str, ...] = ()
    picks: int = 0
    points: int = 0
    truth: tuple[float, ...] = ()
    hides: bool = False
    numeric: bool = False
    right: float | None = None

    def __post_init__(self) -> None:
        _check_text(self.ask, LONGEST_ASK, N_("A question is a text of at most {longest} characters."))
        if not self.ask.strip():
            raise value_error("The question has no words yet. Write what the class is to answer.")
        for names, most, too_many in (
            (self.rows, MOST_ROWS, TOO_MANY_ROWS),
            (self.columns, MOST_COLUMNS, TOO_MANY_COLUMNS),
        ):
            if not isinstance(names, tuple) or len(names) > most:
                raise value_error(too_many, most=most, count=len(names))
            for name in names:
                _check_text(name, LONGEST_NAME, N_("An option is a text of at most {longest} characters."))
        if any(type(one) is not bool for one in (self.hides, self.numeric)):
            raise value_error("hides and numeric of a question are true or false.")
        if any(type(one) is not int for one in (self.picks, self.points)):
            raise value_error("picks and points of a question are whole numbers.")
        if (self.picks > 0) + (self.points > 0) + self.numeric != 1:
            raise value_error("A question is answered by picks, by points or by a number: by one of them.")
        if self.numeric:
            if self.columns or self.truth or self.rows != ("",) or self.picks or self.points:
                raise value_error("A question for a number has no options.")
            if self.right is not None and not _is_number(self.right):
                raise value_error("The right number of a question must be a number.")
            return
        if not (self.columns and self.rows) or self.size < 2:
            raise value_error("A question has at least two options. Ask about more.")
        most = min(self.size, MOST_PICKS)
        if not 0 <= self.picks <= most or self.points not in (0, POINTS) or self.right is not None:
            raise value_error(
                "A question allows 1 to {most} picks, or {points} points, and has no right number.",
                most=most,
                points=POINTS,
            )
        if self.truth and (
            not isinstance(self.truth, tuple)
            or len(self.truth) != self.size
            or not all(_is_number(share) and share >= 0 for share in self.truth)
            or abs(math.fsum(self.truth) - 1) > 1e-6
        ):
            raise value_error("The truth of a question has a share for each option, 0 or more, and they add up to 1.")

    @property
    def size(self) -> int:
        """The number of options."""
        return len(self.rows) * len(self.columns)

    def option(self, index: int) -> str:
        """Returns the name of an option, with its row if there are several."""
        row, column = divmod(index, len(self.columns))
        return f"{self.rows[row]} → {self.columns[column]}" if len(self.rows) > 1 else self.columns[column]

    def to_json(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> "Question":
        """Raises ValueError if a field is not valid."""
        table = _parse(text)
        if not isinstance(table, dict) or not table.keys() <= cls.__dataclass_fields__.keys() or "ask" not in table:
            raise value_error("This is not a question of a class: its fields are different.")
        for name in ("rows", "columns", "truth"):
            if not isinstance(table.get(name, []), list):
                raise value_error("This is not a question of a class: its {name} are not a list.", name=name)
        fields: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in table.items()
        }
        return cls(**fields)


def text_question(ask: str, options: Sequence[str], right: str | None = None) -> Question:
    """Returns a question to choose one of several texts; one of them is right, or none."""
    truth = () if right is None else tuple(float(option == right) for option in options)
    return Question(ask, columns=tuple(options), picks=1, truth=truth)


def keys_question(ask: str, keys: Sequence[str], weights: Float[np.ndarray, " keys"], *, picks: int = 1) -> Question:
    """Returns a question to pick the keys with the largest weights of a query. Masked keys, NaN, have no weight."""
    return Question(ask, columns=_names(keys), picks=picks, truth=_shares(weights), hides=True)


def points_question(ask: str, keys: Sequence[str], weights: Float[np.ndarray, " keys"]) -> Question:
    """Returns a question to spread ten points over keys as a query spreads its weights. NaN is a masked key."""
    return Question(ask, columns=_names(keys), points=POINTS, truth=_shares(weights), hides=True)


def head_question(name: str, metric: Float[np.ndarray, "layers heads"]) -> Question:
    """Returns a question for the head with the largest value of a metric; NaN is a head without one.

    Rows are layers and columns are heads, counted from 0. Equally good heads share the truth. The picture stays: the
    small maps tell.
    """
    if not np.isfinite(metric).any():
        raise value_error("A question about heads needs a value of the metric for at least one head.")
    best = np.isclose(metric, np.nanmax(metric), rtol=1e-6, atol=1e-9)
    layers, heads = metric.shape
    return Question(
        ask=_("Which head is {name}?", name=name),
        rows=tuple(_("Layer {layer}", layer=layer) for layer in range(layers)) if layers > 1 else ("",),
        columns=tuple(_("Head {head}", head=head) for head in range(heads)),
        picks=1,
        truth=_shares(best.astype("f8").ravel()),
    )


def cells_question(
    ask: str, queries: Sequence[str], keys: Sequence[str], cells: Bool[np.ndarray, "queries keys"]
) -> Question:
    """Returns a question to tap the cells of a map, such as those that a mask removes. Raises ValueError if there are
    none."""
    truth, picks = _shares(cells.astype("f8").ravel()), min(int(np.count_nonzero(cells)), MOST_PICKS)
    return Question(ask, _names(queries), _names(keys), picks=picks, truth=truth, hides=True)


def lesson_question(ask: str, check: Check | None, quantities: Quantities) -> Question | None:
    """Returns the question of a lesson's step, for which the page stays as it does for a reader; None for one that is
    not answered by options or a number.

    Raises ValueError if the page has no such quantity.
    """
    match check:
        case Choice(options, right):
            return text_question(ask, options, right)
        case Tap(count):
            weights = token_weights(quantities)
            values = np.array([*weights.values()])
            return replace(keys_question(ask, [*weights], values, picks=min(count, len(weights))), hides=False)
        case NumberCheck(quantity):
            return Question(ask, numeric=True, right=find_quantity(quantity, quantities))
    return None


@dataclass(frozen=True)
class Answer:
    """An answer: how many points or picks each option has, by its index, or a number."""

    counts: tuple[tuple[int, int], ...] = ()
    number: float | None = None

    def to_json(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> "Answer":
        table = json.loads(text)
        return cls(tuple((option, count) for option, count in table["counts"]), table["number"])


def parse_answer(question: Question, value: Any) -> Answer:
    """Returns the answer that JSON from outside holds: a list of options for picks, an object of points by option for
    points, or a number. Options are indices, row by row.

    Raises ValueError, with a sentence for who answered, for all else.

    Example:
        >>> parse_answer(text_question("Which?", ["A", "B"]), [1])
        Answer(counts=((1, 1),), number=None)
    """
    if question.numeric:
        if not _is_number(value) or abs(value) > LARGEST_NUMBER:
            raise value_error("Write a number, such as 0.25.")
        return Answer(number=float(value))
    if question.picks:
        if not isinstance(value, list) or not 1 <= len(value) <= question.picks:
            raise ValueError(
                plural("Tap one option.", "Tap 1 to {picks} options.", question.picks, picks=question.picks)
            )
        counts = dict.fromkeys((_index(question, one) for one in value), 1)
        if len(counts) < len(value):
            raise value_error("Tap different options.")
        return Answer(tuple(sorted(counts.items())))
    if not isinstance(value, dict) or len(value) > question.points:
        raise value_error("Spread up to {points} points over the options.", points=question.points)
    spread: dict[int, int] = {}
    for name, count in value.items():
        if type(count) is not int or not 0 <= count <= question.points:
            raise value_error("Points are whole numbers from 0 to {points}.", points=question.points)
        if not isinstance(name, str) or not name.isascii() or not name.isdecimal() or len(name) > 4:
            raise _no_option(question)
        index = _index(question, int(name))
        if index in spread:
            raise value_error("An option has its points once.")
        spread[index] = count
    if not 1 <= sum(spread.values()) <= question.points:
        raise value_error(
            "Spread 1 to {points} points; these are {given}.", points=question.points, given=sum(spread.values())
        )
    return Answer(tuple(sorted((index, count) for index, count in spread.items() if count)))


def _index(question: Question, value: Any) -> int:
    if type(value) is not int or not 0 <= value < question.size:
        raise _no_option(question)
    return value


def _no_option(question: Question) -> ValueError:
    return value_error("There is no such option; this question has {count}.", count=grouped(question.size))


def _is_number(value: Any) -> bool:
    """Returns whether a value is a finite number: no boolean, and no whole number that is too large for a float."""
    if type(value) is int:
        return abs(value) < 1 << 53
    return type(value) is float and math.isfinite(value)


def _check_text(text: Any, longest: int, refusal: str) -> None:
    if not isinstance(text, str) or len(text) > longest or any("\ud800" <= c <= "\udfff" for c in text):
        raise value_error(refusal, longest=longest)


def _names(tokens: Sequence[str]) -> tuple[str, ...]:
    return tuple(name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…" for name in map(visible, tokens))


def _shares(weights: Shaped[np.ndarray, " options"]) -> tuple[float, ...]:
    if not is_predictable(weights):
        raise value_error(
            "Only shares can be predicted: weights of 0 or more that are not all 0. Choose another query."
        )
    return tuple(normalized(weights).tolist())


def _parse(text: str) -> Any:
    if not isinstance(text, str) or len(text) > LARGEST_JSON:
        raise value_error("A question has at most {most} characters.", most=grouped(LARGEST_JSON))
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise value_error("This is not a question of a class: it is not valid JSON.") from problem
