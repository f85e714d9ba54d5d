"""Questions to a class, and answers to them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from attnviz.formatting import number, visible
from attnviz.lessons.checks import TOLERANCE, Choice, NumberCheck, Quantities, Tap, find_quantity, token_weights
from attnviz.lessons.lesson_files import LessonStep
from attnviz.lessons.prediction import is_predictable, normalized, total_variation

MOST_OPTIONS = 64  # along a side of a grid
MOST_CELLS = 24  # along a side of a grid whose cells are tapped
MOST_TEXT = 300  # characters of a question; an option has at most half of them
POINTS = 10
HEAD_AXES = "layers", "heads"

Value = float | dict[int, int]  # a number, or the points of options


@dataclass(frozen=True)
class Question:
    """A question whose answers are options in `rows` × `columns`, or a number.

    Up to `picks` options may be chosen; with `points`, so many are spread over any options. `truth` has the share of
    each option, row by row; it is empty if no answer is right. A question that `hides` the page is about what the page
    shows. Raises ValueError if it cannot be asked.
    """

    ask: str
    rows: tuple[str, ...] = ("",)
    columns: tuple[str, ...] = ()
    picks: int = 1
    points: int = 0
    truth: tuple[float, ...] = ()
    hides: bool = False
    numeric: bool = False
    right: float | None = None  # of a number
    axes: tuple[str, str] = ("queries", "keys")  # of a grid

    def __post_init__(self) -> None:
        texts = (*self.rows, *self.columns, *self.axes)
        options = len(self.rows) * len(self.columns)
        if not self.ask.strip() or len(self.ask) > MOST_TEXT or any(len(text) > MOST_TEXT // 2 for text in texts):
            raise ValueError(f"A question has at most {MOST_TEXT} characters, and an answer {MOST_TEXT // 2}.")
        if not self.numeric and not (1 <= len(self.rows) <= MOST_OPTIONS and options >= 2):
            raise ValueError("A question needs two answers or more to choose from.")
        if len(self.axes) != 2:
            raise ValueError("A question has two axes.")
        if len(self.columns) > MOST_OPTIONS or len(self.rows) > MOST_OPTIONS:
            raise ValueError(f"A question has at most {MOST_OPTIONS} answers along a side.")
        if self.points not in (0, POINTS) or not 1 <= self.picks <= max(1, options):
            raise ValueError(f"A question lets people choose answers, or spread {POINTS} points.")
        shares = np.array(self.truth)
        if self.truth and (
            len(shares) != options or not (np.isfinite(shares) & (shares >= 0)).all() or not shares.any()
        ):
            raise ValueError("The truth of a question has a share for each answer.")
        if self.right is not None and not math.isfinite(self.right):
            raise ValueError("The right number is not finite.")

    def to_json(self) -> dict[str, Any]:
        """Returns what `from_json` reads."""
        return asdict(self)

    @classmethod
    def from_json(cls, content: object) -> "Question":
        """Reads a question that a browser has sent. Raises ValueError if it is none."""
        if not isinstance(content, dict) or {*content} - {field.name for field in fields(cls)}:
            raise ValueError("This is no question.")
        values = {**content}
        for name, kind in (("rows", str), ("columns", str), ("axes", str), ("truth", (int, float))):
            items = values.get(name, [])
            if not isinstance(items, list | tuple) or not all(
                isinstance(item, kind) and not isinstance(item, bool) for item in items
            ):
                raise ValueError(f"The {name} of a question are no list.")
            if name in values:
                values[name] = tuple(items)
        for name, simple in (("ask", str), ("hides", bool), ("numeric", bool)):
            if not isinstance(values.get(name, simple()), simple):
                raise ValueError(f"The {name} of a question is {values[name]!r:.40}.")
        for name in ("picks", "points"):
            if type(values.get(name, 0)) is not int:
                raise ValueError(f"The {name} of a question are {values[name]!r:.40}.")
        if not isinstance(values.get("right"), int | float | None) or isinstance(values.get("right"), bool):
            raise ValueError("The right number of a question is none.")
        return cls(**values)

    @property
    def options(self) -> tuple[str, ...]:
        """The names of the options, row by row."""
        between = ", head " if self.axes == HEAD_AXES else ", "
        return tuple(f"{row}{between}{column}" if row else column for row in self.rows for column in self.columns)

    def parse_answer(self, value: object) -> Value:
        """Returns an answer that a browser has sent. Raises ValueError, with a sentence, if it is none."""
        if self.numeric:
            if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= 1e12:
                raise ValueError("Write a number, such as 0.25.")
            return float(value)
        if not isinstance(value, dict) or not 1 <= len(value) <= max(self.picks, self.points):
            raise ValueError(f"Choose from 1 to {max(self.picks, self.points)} answers.")
        counts: dict[int, int] = {}
        for option, count in value.items():
            place = str(option)
            if not place.isascii() or not place.isdecimal() or len(place) > 4 or int(place) >= len(self.options):
                raise ValueError("One of the chosen answers is not there.")
            if type(count) is not int or not 1 <= count <= max(1, self.points):
                raise ValueError("An answer has one point or more.")
            counts[int(place)] = count
        if self.points and sum(counts.values()) > self.points:
            raise ValueError(f"There are {self.points} points to give.")
        return counts

    def shares(self, value: Value) -> Float[np.ndarray, " options"]:
        """Returns the share of each option in an answer."""
        counts = np.zeros(len(self.options))
        for option, count in value.items() if isinstance(value, dict) else ():
            counts[option] = count
        return normalized(counts)

    def distance(self, value: Value) -> float | None:
        """Returns how far an answer is from the truth, 0 to 1 for options; None without a truth."""
        if self.numeric:
            return None if self.right is None else abs(float(value) - self.right)  # type: ignore[arg-type]
        return total_variation(self.shares(value), np.array(self.truth)) if self.truth else None

    def in_words(self, value: Value) -> str:
        """Returns an answer as text."""
        if not isinstance(value, dict):
            return f"{value:g}"
        names = self.options
        return "; ".join(names[option] + (f" × {count}" if self.points else "") for option, count in value.items())


def weights_question(ask: str, weights: Mapping[str, float], points: bool = False) -> Question:
    """Returns the question which token has the largest weight, or with `points`, how the weights are spread.

    Of more than MOST_OPTIONS tokens those with the largest weights are there. Raises ValueError for weights that are no
    shares.
    """
    shares = np.array([*weights.values()], dtype=float)
    if len(shares) < 2 or not is_predictable(shares):
        raise ValueError("Only shares of several tokens can be guessed.")
    places = np.sort(np.argsort(-shares, kind="stable")[:MOST_OPTIONS])
    truth = shares[places] if points else (shares[places] == shares.max()).astype(float)
    tokens = [*weights]
    names = tuple(tokens[i][: MOST_TEXT // 2] for i in places)
    return Question(
        ask, columns=names, points=POINTS if points else 0, truth=tuple(normalized(truth).tolist()), hides=True
    )


def head_question(
    ask: str, layers: Sequence[str], values: Float[np.ndarray, "layers heads"], hides: bool = True
) -> Question:
    """Returns the question which head has the largest value; NaN is a head that is not there."""
    known = np.nan_to_num(np.asarray(values, dtype=float))
    truth = (known == known.max()).astype(float).ravel()
    heads = tuple(map(str, range(known.shape[1])))
    return Question(ask, tuple(layers), heads, truth=tuple((truth / truth.sum()).tolist()), hides=hides, axes=HEAD_AXES)


def cells_question(
    ask: str, queries: Sequence[str], keys: Sequence[str], cells: Bool[np.ndarray, "queries keys"]
) -> Question:
    """Returns the question which cells of a map are meant. Raises ValueError if there are none, or too many tokens."""
    if max(cells.shape) > MOST_CELLS:
        raise ValueError(f"Cells are tapped in maps of at most {MOST_CELLS} tokens.")
    if not cells.any():
        raise ValueError("There is no such cell.")
    count = int(cells.sum())
    names = [tuple(f"{i} {visible(token)[:20]}" for i, token in enumerate(tokens)) for tokens in (queries, keys)]
    return Question(
        ask, names[0], names[1], picks=min(count, 12), truth=tuple((cells.ravel() / count).tolist()), hides=True
    )


def choice_question(ask: str, options: Sequence[str], right: str = "") -> Question:
    """Returns a question with texts to choose from; `right` is one of them, or empty."""
    truth = tuple(float(option == right) for option in options) if right else ()
    return Question(ask, columns=tuple(options), truth=truth)


def step_question(step: LessonStep, quantities: Quantities) -> Question | None:
    """Returns the question of a step of a lesson; None if it is none that a room can answer.

    Raises ValueError if the page does not have what the answer is checked against.
    """
    match step.check:
        case Choice(options=options, right=right):
            return choice_question(step.ask, options, right)
        case Tap(count=count):
            question = weights_question(step.ask, token_weights(quantities))
            shares = np.array([token_weights(quantities)[name] for name in question.columns])
            largest = (shares >= np.sort(shares)[-count]).astype(float)
            return replace(question, picks=count, truth=tuple(normalized(largest).tolist()), hides=False)
        case NumberCheck(quantity=quantity):
            return Question(step.ask, numeric=True, right=find_quantity(quantity, quantities))
    return None


def is_right(question: Question, value: Value) -> bool:
    """Returns whether an answer is right: a number to two decimals, or options none of which is wrong."""
    if question.numeric:
        distance = question.distance(value)
        return distance is not None and distance <= TOLERANCE
    return bool(question.truth) and all(question.truth[option] > 0 for option in value)  # type: ignore[union-attr]


def distance_sentence(question: Question, value: Value) -> str:
    """Returns a sentence about the quality of an answer; none if nothing is right or wrong."""
    distance = question.distance(value)
    if distance is None:
        return ""
    if question.numeric:
        return f"You wrote {number(float(value))}; it is {number(question.right or 0.0)}."  # type: ignore[arg-type]
    if question.points:
        return f"Your guess is {number(distance)} from the attention; 0 would be the same, 1 nothing in common."
    return "Your answer was right." if is_right(question, value) else "Your answer was another one."
