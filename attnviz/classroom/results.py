"""What a class has answered: distributions, shares of right answers, distances from the truth, and their change."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from attnviz.base.formatting import number as format_number
from attnviz.base.formatting import percent
from attnviz.base.language import _, plural
from attnviz.classroom.question import Answer, Question
from attnviz.lessons.checks import NumberCheck
from attnviz.lessons.prediction_distance import total_variation

BINS = 10


@dataclass(frozen=True, eq=False)
class RoundResults:
    """The answers of one vote.

    `distribution` is the mean of the participants' shares, each of which adds up to 1; all 0 without answers. Numbers
    have bins instead: counts between edges, where the first and last bin also have what lies beyond.
    """

    answers: int
    distribution: Float[np.ndarray, "rows columns"]
    share_right: float | None = None  # of those who answered; None where nothing is right or wrong
    distance: float | None = None  # median total variation distance from the truth
    median: float | None = None  # of numbers
    bin_edges: Float[np.ndarray, " edges"] | None = None
    bin_counts: Int[np.ndarray, " bins"] | None = None


@dataclass(frozen=True, eq=False)
class Results:
    """The results of a question: of its first vote, and of its second one after discussion if there was one."""

    question: Question
    rounds: tuple[RoundResults, ...]

    @property
    def last(self) -> RoundResults:
        return self.rounds[-1]

    def sentences(self, *, with_truth: bool = True) -> tuple[str, ...]:
        """Returns what the projector says; without the truth only how many have answered."""
        last = self.last
        if not last.answers:
            return (_("Nobody has answered yet."),)
        sentences = [
            plural("One person has answered.", "{count} people have answered.", last.answers, count=last.answers)
        ]
        if last.median is not None:
            sentences.append(_("The median is {number}.", number=format_number(last.median)))
        if not with_truth:
            return tuple(sentences)
        before = self.rounds[0] if len(self.rounds) > 1 and self.rounds[0].answers else None
        if self.question.right is not None:
            sentences.append(_("The answer is {number}.", number=format_number(self.question.right)))
        if last.share_right is not None and self.question.picks <= 1:  # of several picks hardly anybody has them all
            share = percent(last.share_right, 2)
            sentence = plural(
                "{share} of the answers is right", "{share} of the answers are right", last.answers, share=share
            )
            earlier = percent(before.share_right or 0, 2) if before else None
            sentences.append(_compared(sentence, earlier))
        elif last.distance is not None:
            sentence = _("Half of the class is within {distance} of the truth", distance=format_number(last.distance))
            earlier = format_number(before.distance or 0) if before else None
            sentences.append(_compared(sentence, earlier))
        return tuple(sentences)


def _compared(sentence: str, before: str | None) -> str:
    return f"{sentence}; {_('before the discussion it was {share}', share=before)}." if before else f"{sentence}."


def measure_results(question: Question, rounds: Sequence[Iterable[Answer]]) -> Results:
    """Returns the results of a question from the answers of its votes."""
    measure = _numbers if question.numeric else _options
    return Results(question, tuple(measure(question, [*answers]) for answers in rounds) or (measure(question, []),))


def answer_shares(question: Question, answer: Answer) -> Float[np.ndarray, " options"]:
    """Returns an answer as shares of the options that add up to 1."""
    shares = np.zeros(question.size)
    for option, count in answer.counts:
        shares[option] = count
    return shares / shares.sum()


def answer_distance(question: Question, answer: Answer) -> float | None:
    """Returns the total variation distance of an answer from the truth; None where there is no truth."""
    if not question.truth:
        return None
    return total_variation(answer_shares(question, answer), np.array(question.truth))


def is_right(question: Question, answer: Answer) -> bool | None:
    """Returns whether an answer is right: a number to two decimals, or picks with the largest shares of the truth.

    None where nothing is right or wrong.
    """
    if question.numeric:
        if question.right is None or answer.number is None:
            return None
        return NumberCheck("right").is_right(answer.number, {"right": question.right})
    if not question.truth or not question.picks:
        return None
    largest = sorted(question.truth, reverse=True)[: question.picks]
    return sorted((question.truth[option] for option, _ in answer.counts), reverse=True) == largest


def _options(question: Question, answers: list[Answer]) -> RoundResults:
    shares = np.array([answer_shares(question, answer) for answer in answers]).reshape(-1, question.size)
    mean = shares.mean(axis=0) if answers else np.zeros(question.size)
    distances = [distance for answer in answers if (distance := answer_distance(question, answer)) is not None]
    return RoundResults(
        answers=len(answers),
        distribution=mean.reshape(len(question.rows), len(question.columns)),
        share_right=_share_right(question, answers),
        distance=float(np.median(distances)) if distances else None,
    )


def _numbers(question: Question, answers: list[Answer]) -> RoundResults:
    numbers = np.array([answer.number for answer in answers if answer.number is not None])
    none = np.zeros((1, 0))
    if not numbers.size:
        return RoundResults(0, none)
    known = [] if question.right is None else [question.right]
    # One number far away would leave all others in one bin.
    low, high = np.quantile(numbers, (0.05, 0.95))
    low, high = min([low, *known]), max([high, *known])
    # In less than a tenth of the numbers themselves, the edges of the bins have the same three digits.
    least, middle = max(abs(low), abs(high)) / 10 or 1.0, (low + high) / 2
    if high - low < least:
        low, high = middle - least / 2, middle + least / 2
    counts, edges = np.histogram(np.clip(numbers, low, high), bins=BINS, range=(low, high))
    return RoundResults(
        answers=len(numbers),
        distribution=none,
        share_right=_share_right(question, answers),
        median=float(np.median(numbers)),
        bin_edges=edges,
        bin_counts=counts,
    )


def _share_right(question: Question, answers: list[Answer]) -> float | None:
    marks = [mark for answer in answers if (mark := is_right(question, answer)) is not None]
    return sum(marks) / len(marks) if marks else None
