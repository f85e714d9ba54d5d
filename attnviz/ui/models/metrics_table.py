"""The metrics of all heads of a model: on the text, of a long one as a job, or on random tokens."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from jaxtyping import Float, Int

from attnviz.analysis.head_metrics import Excluded, HeadMetric, HeadMetricTable, head_metrics
from attnviz.analysis.strongest_heads import SEEDS, metrics_on_random_tokens
from attnviz.analysis.work import MOST_MAP_WORK, heads_work
from attnviz.formatting import grouped, number
from attnviz.language import _, plural, value_error
from attnviz.layer import Layer, head_name
from attnviz.state.models import ModelSelection, offered_metrics
from attnviz.ui import cache


@dataclass(frozen=True, eq=False)
class MetricsTable:
    """The metrics of heads, with the heads' names."""

    layers: Sequence[Layer]
    metrics: HeadMetricTable  # its layers are indices of the whole list
    indices: Sequence[int]  # of the layers that are measured, some of which a job may not have finished

    @property
    def names(self) -> list[str]:
        """The heads, in the order of the table."""
        return [head_name(self.layers[i].id, head) for i, head in self.heads]

    @property
    def heads(self) -> list[tuple[int, int]]:
        return list(zip(self.metrics.layers.tolist(), self.metrics.heads.tolist(), strict=True))

    @property
    def values(self) -> dict[str, Float[np.ndarray, " heads"]]:
        """The offered metrics that are defined for at least one head."""
        offered = offered_metrics(self.layers)
        return {name: self.metrics.values[name] for name in offered if not np.isnan(self.metrics.values[name]).all()}


def metrics_of_text(selection: ModelSelection, excluded: Excluded) -> MetricsTable:
    """Returns the metrics on the text: of all heads, of one layer if all take too much work for a job, or of the layers
    that a job has finished so far, whose progress is drawn."""
    indices = list(range(len(selection.layers)))
    if heads_work(selection.layers) > MOST_MAP_WORK:
        indices = [selection.index]
    layers = [selection.layers[i] for i in indices]

    def describe(metrics: HeadMetricTable) -> str:
        done, count = len(metrics.heads), sum(layer.inputs.heads for layer in layers)
        return _("{done} of {heads} heads so far.", done=grouped(done), heads=grouped(count))

    metrics = cache.once_or_so_far(
        partial(head_metrics, layers, excluded_queries=excluded, excluded_keys=excluded),
        *("head metrics", selection.source, excluded, indices),
        work=heads_work(layers), describe=describe,
    )  # fmt: skip
    return MetricsTable(selection.layers, replace(metrics, layers=np.array(indices)[metrics.layers]), indices)


def metrics_of_random_tokens(selection: ModelSelection, excluded: Excluded) -> MetricsTable:
    """Returns the mean of the metrics over texts of repeated random tokens.

    Raises ValueError if the model cannot read them, or has another number of heads for them than for the text.
    """
    source, layers = selection.source, selection.layers
    key = "head metrics on random tokens", source.name, source.version, excluded
    work = len(SEEDS) * source.forward_work
    metrics = cache.once(lambda: metrics_on_random_tokens(source.model(), excluded), *key, work=work)
    if np.bincount(metrics.layers).tolist() != [layer.inputs.heads for layer in layers]:
        raise value_error("The layers of {name} are different on random tokens.", name=source.model().name)
    return MetricsTable(layers, metrics, range(len(layers)))


def positions_text(positions: Int[np.ndarray, " heads"]) -> str:
    """Returns on how many tokens the numbers of heads rest, as “over 3 tokens”; empty if none has a number."""
    counts = positions[positions > 0].tolist()
    if not counts:
        return ""
    least, most = min(counts), max(counts)
    if least < most:
        return _("over {least} to {most} tokens", least=grouped(least), most=grouped(most))
    return plural("over {count} token", "over {count} tokens", most, count=grouped(most))


def metric_title(metric: HeadMetric, table: HeadMetricTable) -> str:
    """Returns a metric's name with its unit, and on how many tokens it rests."""
    unit = "" if metric.unit == "share" else _(metric.unit)
    return ", ".join(filter(None, (_(metric.name), unit, positions_text(table.positions[metric.name]))))


def value_text(metric: HeadMetric, value: float) -> str:
    """Returns a metric's value with its unit."""
    if np.isnan(value):
        return _("none")
    return number(value) if metric.unit == "share" else f"{number(value)} {_(metric.unit)}"
