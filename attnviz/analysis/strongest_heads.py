"""The heads that do mainly one thing, such as previous-token and induction heads."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from attnviz.analysis.head_metrics import (
    Diagonal,
    DuplicateToken,
    Excluded,
    First,
    HeadMetric,
    HeadMetricTable,
    Induction,
    Next,
    Previous,
    head_metrics,
)
from attnviz.base.language import value_error

if TYPE_CHECKING:
    from attnviz.models.model import LoadedModel  # with transformers

SEEDS = (0, 1, 2)  # of random tokens
ROLES: tuple[HeadMetric, ...] = (Previous(), Induction(), DuplicateToken(), Diagonal(), Next(), First())
MOST_OF = 0.5  # of a head's attention


@dataclass(frozen=True)
class StrongHead:
    """A head, and the share of its attention on the keys of a metric."""

    layer: int  # the index
    head: int
    share: float


def strongest_heads(
    table: HeadMetricTable, *, least: float = MOST_OF, metrics: Sequence[HeadMetric] = ROLES
) -> dict[str, tuple[StrongHead, ...]]:
    """Returns the heads that give at least a share `least` of their attention to the keys of a metric, by the name of
    the metric, the largest share first.

    Induction heads show on repeated random tokens, where a head can only match what it has seen: see
    `metrics_on_random_tokens`.

    Example:
        >>> from attnviz.models.minilm import minilm
        >>> table = metrics_on_random_tokens(minilm())
        >>> [(one.layer, one.head) for one in strongest_heads(table, least=0.9)["Previous token"]]
        [(0, 2)]
    """
    strongest = {}
    for metric in metrics:
        shares = table.values[metric.name]
        order = [i for i in np.argsort(-shares, kind="stable").tolist() if shares[i] >= least]  # NaN is not
        strongest[metric.name] = tuple(
            StrongHead(int(table.layers[i]), int(table.heads[i]), float(shares[i])) for i in order
        )
    return strongest


def metrics_on_random_tokens(model: "LoadedModel", excluded: Excluded = "none") -> HeadMetricTable:
    """Returns the mean of the metrics of every head of a model over texts of repeated random tokens, one for each of
    SEEDS. `excluded` tokens are ignored as queries and as keys.

    Raises ValueError if the model cannot read them, or has other layers on some of them.
    """
    tables, names = [], set[tuple[str, ...]]()
    for trace in map(model.layers_of_random_tokens, SEEDS):
        names.add(tuple(layer.name for layer in trace))
        if len(names) > 1:
            raise value_error("The layers of {name} are different on random tokens.", name=model.name)
        tables.append(head_metrics(trace, excluded_queries=excluded, excluded_keys=excluded))
    return HeadMetricTable.mean(tables)
