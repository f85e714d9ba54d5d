"""What a room has answered: its distribution, and how far it is from the truth."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from jaxtyping import Float

from attnviz.classroom.question import Question, Value, is_right
from attnviz.formatting import enumeration, number

BINS = 10  # of numbers
MOST_NAMED = 3  # options with equal shares


@dataclass(frozen=True, eq=False)
class Round:
    """One vote: the number of answers, the share of each option, and the median distance from the truth."""

    answers: int
    distribution: Float[np.ndarray, " options"]
    right: int
    distance: float | None  # None without a truth, and without answers

    @classmethod
    def count(cls, question: Question, answers: Collection[Value]) -> "Round":
        """Counts answers; each has the same weight, however many options it has."""
        distances = [one for value in answers if (one := question.distance(value)) is not None]
        shares = [question.shares(value) for value in answers] if not question.numeric else []
        return cls(
            len(answers),
            np.mean(shares, axis=0) if shares else np.zeros(len(question.options)),
            sum(is_right(question, value) for value in answers),
            float(np.median(distances)) if distances else None,
        )


@dataclass(frozen=True, eq=False)
class Results:
    """The results of a question: those of its first vote, and of a second one."""

    question: Question
    votes: tuple[tuple[Value, ...], ...]

    @property
    def rounds(self) -> tuple[Round, ...]:
        return tuple(Round.count(self.question, values) for values in self.votes)

    def series(self) -> tuple[tuple[str, ...], list[Float[np.ndarray, " options"]]]:
        """Returns the names of the options and, for each vote, their shares; numbers are counted in bins."""
        if not self.question.numeric:
            return self.question.options, [one.distribution for one in self.rounds]
        return _bins(self.votes, self.question.right)

    def sentences(self, revealed: bool) -> list[str]:
        """Returns what the projector says of the votes, and once it is revealed, of the truth."""
        first, *later = self.rounds
        last = later[-1] if later else first
        if not last.answers:
            return ["Nobody has answered."]
        sentences = [self._agreement(last)]
        if revealed:
            sentences += self._truth(first, last if later else None)
        return [one for one in sentences if one]

    def _agreement(self, vote: Round) -> str:
        if self.question.numeric:
            middle = float(np.median([float(value) for value in self.votes[-1]]))  # type: ignore[arg-type]
            return f"The middle of {vote.answers} answers is {number(middle)}."
        largest = vote.distribution.max()
        best = [
            option for option, share in zip(self.question.options, vote.distribution, strict=True) if share == largest
        ]
        share = f"{100 * largest:.0f} %"
        whole = "of all points" if self.question.points else f"of {vote.answers} answers"
        if len(best) > MOST_NAMED:
            return f"The room is divided: no option has more than {share} {whole}."
        each = " each" if len(best) > 1 else ""
        return f"{share} {whole} are for {enumeration(best)}{each}."

    def _truth(self, first: Round, second: Round | None) -> list[str]:
        last = second or first
        if self.question.numeric:
            if self.question.right is None:
                return []
            before = f"; before the discussion {first.right} of {first.answers} were" if second else ""
            return [f"It is {number(self.question.right)}: {last.right} of {last.answers} answers are right{before}."]
        if not self.question.truth or last.distance is None:
            return []
        if self.question.points or self.question.picks > 1:
            before = (
                f"; before the discussion it was {number(first.distance)}"
                if second and first.distance is not None
                else ""
            )
            return [
                f"Half of the room is within {number(last.distance)} of the truth{before} (1 has nothing in common)."
            ]
        before = f"; before the discussion {first.right} of {first.answers} were" if second else ""
        return [f"{last.right} of {last.answers} answers are right{before}."]


def _bins(
    votes: Sequence[Sequence[Value]], right: float | None
) -> tuple[tuple[str, ...], list[Float[np.ndarray, " options"]]]:
    """Returns the names of bins of numbers and the share of each vote in them.

    The bins span the middle nine tenths of the numbers and the right one; what is beyond them counts in the last ones.
    """
    numbers = np.array([float(value) for vote in votes for value in vote])  # type: ignore[arg-type]
    known = [] if right is None else [right]
    if not len(numbers):
        return ("no number",), [np.zeros(1) for _ in votes]
    lowest, highest = np.quantile(numbers, [0.05, 0.95])
    lowest, highest = min(lowest, *known, highest), max(highest, *known, lowest)
    if highest - lowest < 1e-9:
        lowest, highest = lowest - 0.5, highest + 0.5
    edges = np.linspace(lowest, highest, BINS + 1)
    names = tuple(f"{low:.3g} to {high:.3g}" for low, high in pairwise(edges))
    clipped = [np.clip(np.array([float(value) for value in vote]), lowest, highest) for vote in votes]  # type: ignore[arg-type]
    return names, [np.histogram(vote, edges)[0] / max(1, len(vote)) for vote in clipped]
