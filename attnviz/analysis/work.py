"""A limit on the work of one request, because anybody with a link can request a page."""

from collections.abc import Sequence

from attnviz.base.formatting import grouped
from attnviz.base.language import _, value_error
from attnviz.inputs import MapAxes
from attnviz.layer import FixedWeights, Layer
from attnviz.masks.cost import cost
from attnviz.mechanism import Mechanism

MOST_WORK = 1_000_000_000  # steps; a core does 100 to 200 million a second
MOST_MAP_WORK = 40_000_000_000  # steps of one long map, computed in the background: a minute or two


def heads_work(layers: Sequence[Layer]) -> int:
    """Returns the approximate number of steps that computing all heads of these layers takes."""
    return sum(
        layer.inputs.heads * layer.inputs.queries * layer.inputs.keys * _pair_work(layer.mechanism) for layer in layers
    )


def _pair_work(mechanism: Mechanism | FixedWeights) -> int:
    return mechanism.score.work if isinstance(mechanism, Mechanism) else 1


def map_work(inputs: MapAxes, mechanism: Mechanism | FixedWeights, head: int = 0) -> int:
    """Returns the approximate number of steps that the map of one head takes: of many, only pairs that its mask allows.

    Raises ValueError if the pairs of a mask are too many to count.
    """
    pairs = inputs.queries * inputs.keys
    if isinstance(mechanism, Mechanism) and pairs * mechanism.score.work > MOST_MAP_WORK:
        pairs = cost(mechanism.mask, inputs.queries, inputs.keys, head=head).kept
    return pairs * _pair_work(mechanism)


def check_map(inputs: MapAxes, mechanism: Mechanism | FixedWeights, head: int = 0) -> None:
    """Raises ValueError if the long map of one head takes too many steps."""
    work = map_work(inputs, mechanism, head)
    if work > MOST_MAP_WORK:
        raise value_error(
            "The map of this head has {work} pairs of a query and a key that its mask allows; at "
            "most {MOST_MAP_WORK} are computed for one map. Choose a mask that allows fewer, "
            "or use fewer tokens.",
            work=grouped(work),
            MOST_MAP_WORK=grouped(MOST_MAP_WORK),
        )


def is_affordable(work: int) -> bool:
    """Returns whether `work` steps are within the limit."""
    return work <= MOST_WORK


def check_work(work: int, task: str, advice: str) -> None:
    """Raises ValueError if a task takes too many steps. The message names the task and ends with the advice."""
    if not is_affordable(work):
        raise value_error(
            "{task} would take {work} steps; at most {MOST_WORK} are done for one figure. {advice}",
            task=task,
            work=grouped(work),
            MOST_WORK=grouped(MOST_WORK),
            advice=advice,
        )


def check_heads(layers: Sequence[Layer]) -> None:
    """Raises ValueError if computing all heads of these layers takes too many steps."""
    advice = _("Show one layer, choose another score, or use fewer tokens or heads.")
    check_work(heads_work(layers), _("To compute all these heads"), advice)
