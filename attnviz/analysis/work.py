"""How much work one picture may take, and the sentence that refuses more: anybody who has a link can ask for a page."""

from collections.abc import Sequence

from attnviz.layer import Layer
from attnviz.mechanism import Mechanism

MOST_WORK = 1_000_000_000  # steps, of which a core does 100 to 200 million a second


def heads_work(layers: Sequence[Layer], mechanisms: Sequence[Mechanism]) -> int:
    """Returns roughly how many steps it takes to compute all heads of these layers, each with its mechanism."""
    return sum(
        layer.inputs.heads * layer.inputs.queries * layer.inputs.keys * mechanism.score.work
        for layer, mechanism in zip(layers, mechanisms, strict=True)
    )


def is_affordable(work: int) -> bool:
    """Returns whether so many steps are done for one picture."""
    return work <= MOST_WORK


def check_work(work: int, task: str, advice: str) -> None:
    """Raises ValueError if a task takes too many steps; the sentence names the task and ends with the advice."""
    if not is_affordable(work):
        raise ValueError(f"{task} would take {work:,} steps; at most {MOST_WORK:,} are done for one picture. {advice}")


def check_heads(layers: Sequence[Layer], mechanisms: Sequence[Mechanism]) -> None:
    """Raises ValueError if it takes too many steps to compute all heads of these layers."""
    advice = "Show one layer, take another score, or bring fewer tokens or heads."
    check_work(heads_work(layers, mechanisms), "To compute all these heads", advice)
