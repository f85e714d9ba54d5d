"""The terms that a reader has opened one after the other, as a link has them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from attnviz.attribution.attribution import Attribution
from attnviz.attribution.metrics import Score
from attnviz.base.language import value_error

StepQuestion = Literal["value", "key", "query"]
MOST_STEPS = 12
BETWEEN = "-"  # steps in a link
STEP = re.compile(rf"({'|'.join(get_args(StepQuestion))})((?:\.[0-9]{{1,6}}){{4}})")


@dataclass(frozen=True)
class TrailStep:
    """A question about a head, at a position, and a source that it reads: what it found there (its "value"), or why it
    looks there rather than at the average key, by what wrote the "key" or the "query"."""

    question: StepQuestion
    layer: int
    head: int
    position: int
    source: int

    def __str__(self) -> str:
        return ".".join(map(str, (self.question, self.layer, self.head, self.position, self.source)))

    def attribution(self, before: Attribution) -> Attribution:
        """Returns the answer as a sum, where `before` is the sum with the head. Raises ValueError if there is none."""
        if self.question == "value":
            return before.opened(self.layer, self.head, self.position, self.source)
        score = Score(self.layer, self.head, self.position, self.source, over="mean", side=self.question)
        return before.attribute(score)


def parse_trail(text: str) -> tuple[TrailStep, ...]:
    """Returns the steps of a link. Raises ValueError for any other text, or too many steps.

    Example:
        >>> parse_trail("value.23.3.13.9")
        (TrailStep(question='value', layer=23, head=3, position=13, source=9),)
    """
    steps = [STEP.fullmatch(step) for step in text.split(BETWEEN)] if text else []
    if len(steps) > MOST_STEPS or None in steps:
        raise value_error(
            "This is not a list of at most {count} opened terms, such as value.23.3.13.9.", count=MOST_STEPS
        )
    return tuple(
        TrailStep(step[1], *map(int, step[2][1:].split(".")))  # type: ignore[arg-type,index]
        for step in steps
    )


def format_trail(steps: Sequence[TrailStep]) -> str:
    """Returns the text of steps in a link."""
    return BETWEEN.join(map(str, steps))
