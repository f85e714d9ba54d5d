"""The recorded training of the translator: its losses, and what it was like at each checkpoint."""

from dataclasses import dataclass
from functools import cache

from attnviz.translator import weights
from attnviz.translator.train import TIMELINE
from attnviz.translator.translation import Translator
from attnviz.translator.weights import Evaluation


@dataclass(frozen=True)
class Checkpoint:
    """A translator at one step of its training, with its evaluation."""

    evaluation: Evaluation

    @property
    def step(self) -> int:
        return self.evaluation.step

    def translator(self) -> Translator:
        """Returns the translator as it was."""
        return weights.load(TIMELINE, self.step)


@dataclass(frozen=True)
class TrainingHistory:
    """The losses, every `every` steps from step 0, and the checkpoints of a training."""

    every: int
    losses: tuple[float, ...]
    checkpoints: tuple[Checkpoint, ...]

    @property
    def steps(self) -> int:
        """The number of steps."""
        return self.checkpoints[-1].step


@cache
def training_history() -> TrainingHistory:
    """Returns the training of the shipped weights.

    Example:
        >>> history = training_history()
        >>> history.steps, history.checkpoints[0].step
        (2400, 0)
    """
    log = weights.training_log(TIMELINE)
    return TrainingHistory(log.every, log.losses, tuple(map(Checkpoint, log.evaluations)))
