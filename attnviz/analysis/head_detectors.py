"""Detectors of heads that do what the field has a name for, on repeated random tokens, in which nothing but order and
repetition can be attended to."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from jaxtyping import Float

from attnviz.analysis.head_metrics import (
    HEAD_METRICS,
    DuplicateToken,
    First,
    HeadMetric,
    Induction,
    Previous,
    head_metrics,
)
from attnviz.analysis.strongest_heads import MOST_OF, SEEDS
from attnviz.base.interruption import end_if_unwanted
from attnviz.base.language import N_
from attnviz.effects.head_circuits import HeadCircuits, head_circuits
from attnviz.inputs import Inputs
from attnviz.layer import Layer, LayerId
from attnviz.tracing.read_positions import read_tokens

if TYPE_CHECKING:
    from attnviz.models.model import LoadedModel  # with transformers

MOST_RAISED = 0.1  # of the tokens of the text, whose logits a head raises or lowers the most


@dataclass(frozen=True)
class Detector:
    """A kind of heads, with its score: a share of all attention, as a metric has it, or of copied or suppressed
    tokens."""

    name: str  # of the field
    about: str = ""  # of a metric that has no name of its own its docstring says what it is
    metric: HeadMetric | None = None

    @property
    def unit(self) -> str:
        return "share" if self.metric is None else self.metric.unit


PREVIOUS_TOKEN = Detector(
    N_("previous-token head"), N_("The share of attention on the token before (Vig & Belinkov 2019)."), Previous()
)
INDUCTION = Detector(
    N_("induction head"),
    N_("The share of attention on the tokens after earlier occurrences of the same token (Olsson et al. 2022)."),
    Induction(),
)
DUPLICATE_TOKEN = Detector(
    N_("duplicate-token head"),
    N_("The share of attention on earlier occurrences of the same token (Wang et al. 2022)."),
    DuplicateToken(),
)
COPYING = Detector(
    N_("copying head"),
    N_(
        "The share of attention on tokens whose own logits the head raises, among the 10 % that it raises most of the "
        "tokens of the text (Wang et al. 2022)."
    ),
)
COPY_SUPPRESSION = Detector(
    N_("copy-suppression head"),
    N_(
        "The share of attention on tokens whose own logits the head lowers, among the 10 % that it lowers most of the "
        "tokens of the text (McDougall et al. 2023)."
    ),
)
ATTENTION_SINK = Detector(
    N_("attention sink"),
    N_("The share of attention on the first token (Xiao et al. 2023). A token that may look nowhere else is left out."),
    First(),
)
DETECTORS = (PREVIOUS_TOKEN, INDUCTION, DUPLICATE_TOKEN, COPYING, COPY_SUPPRESSION, ATTENTION_SINK)
_NAMED = {type(detector.metric) for detector in DETECTORS}
# All that is measured of what heads do.
MEASURES = (*DETECTORS, *(Detector(one.name, metric=one) for one in HEAD_METRICS if type(one) not in _NAMED))


class DetectedHead(NamedTuple):
    """A head that a detector has found: the mean of its share over seeds, the least and the largest."""

    detector: Detector
    layer: int
    head: int
    share: float
    least: float
    largest: float


@dataclass(frozen=True, eq=False)
class HeadDetection:
    """The shares of every head by detectors, for each seed. NaN where a detector is not defined for a head."""

    layers: tuple[LayerId, ...]
    shares: dict[Detector, Float[np.ndarray, "seeds layers heads"]]
    positions: dict[Detector, int]  # queries that a share rests on, of all seeds
    missing: str = ""  # why copying is not known

    def mean(self, detector: Detector) -> Float[np.ndarray, "layers heads"]:
        """Returns the mean of a detector over seeds."""
        return self.shares[detector].mean(0)

    def strongest(self, detectors: Sequence[Detector] = DETECTORS, least: float = MOST_OF) -> list[DetectedHead]:
        """Returns the heads with at least a share `least` on average, the largest first."""
        heads = []
        for detector in detectors:
            mean, shares = self.mean(detector), self.shares[detector]
            for layer, head in np.argwhere(mean >= least).tolist():  # NaN is not
                ends = shares[:, layer, head]
                heads.append(
                    DetectedHead(detector, layer, head, float(mean[layer, head]), float(ends.min()), float(ends.max()))
                )
        return sorted(heads, key=lambda one: -one.share)


def detect_heads(
    model: "LoadedModel",
    make_circuits: Callable[[], HeadCircuits] | None = None,
    *,
    detectors: Sequence[Detector] = DETECTORS,
    seeds: Sequence[int] = SEEDS,
    progress: Callable[[float], None] = lambda done: None,
) -> HeadDetection:
    """Returns the scores of every head of a model by `detectors`, on repeated random tokens, a text for each of the
    seeds.

    `make_circuits` returns the circuits of the model, by default those of its embeddings; where it raises ValueError,
    copying is `missing`. `progress` gets the share that is done. Raises ValueError if the model cannot read the tokens.

    Example:
        >>> from attnviz.models.smollm2 import smollm2
        >>> [(one.layer, one.head) for one in detect_heads(smollm2(), seeds=[0]).strongest([INDUCTION], least=0.7)]
        [(18, 6), (17, 3), (17, 4)]
    """
    missing, circuits = "", None
    try:
        circuits = make_circuits() if make_circuits else head_circuits(model.model)
        circuits.check_logits()
    except ValueError as reason:
        missing, circuits = str(reason), None
    texts = []
    for number, seed in enumerate(seeds):
        end_if_unwanted()
        trace = model.layers_of_random_tokens(seed)
        texts.append(_shares(trace, circuits, detectors))
        progress((number + 1) / len(seeds))
    return HeadDetection(
        tuple(layer.id for layer in trace),
        {detector: np.stack([shares[detector][0] for shares in texts]) for detector in detectors},
        {detector: sum(shares[detector][1] for shares in texts) for detector in detectors},
        missing,
    )


def _shares(
    trace: Sequence[Layer], circuits: HeadCircuits | None, detectors: Sequence[Detector]
) -> dict[Detector, tuple[np.ndarray, int]]:
    """Returns what each detector gives on one text, (layers, heads), and the number of queries that it rests on."""
    by_metric = {detector: detector.metric.name for detector in detectors if detector.metric is not None}
    table = head_metrics(trace, metrics=[detector.metric for detector in by_metric if detector.metric is not None])

    def grid(values: np.ndarray) -> np.ndarray:
        whole = np.full((len(trace), table.heads.max() + 1), np.nan)
        whole[table.layers, table.heads] = values
        return whole

    shares = {
        detector: (grid(table.values[name]), int(table.positions[name].max())) for detector, name in by_metric.items()
    }
    raised, lowered = np.concatenate([copied_attention(layer, circuits) for layer in trace], axis=1)
    queries = 0 if np.isnan(raised).all() else max(layer.inputs.queries for layer in trace)
    return shares | {COPYING: (grid(raised), queries), COPY_SUPPRESSION: (grid(lowered), queries)}


def copied_attention(layer: Layer, circuits: HeadCircuits | None) -> Float[np.ndarray, "2 heads"]:
    """Returns the share of each head's attention on tokens whose own logits it raises the most, and lowers the most, by
    what their values write. The first token, on which heads rest, and special ones are not among them. NaN where the
    values are not known, or are not written to logits."""
    inputs, layers = layer.inputs, {} if circuits is None else {maps.id: maps for maps in circuits.maps.layers}
    maps = layers.get(layer.id)
    if circuits is None or maps is None or not isinstance(inputs, Inputs) or not inputs.key_ids:
        return np.full((2, inputs.heads), np.nan)
    if maps.output_stream != circuits.maps.logits_stream:
        return np.full((2, inputs.heads), np.nan)
    ids = torch.tensor(inputs.key_ids)
    [(queries, keys)] = read_tokens([layer])
    tokens = [i for i in range(len(ids)) if keys[i] and i not in inputs.special_keys]
    distinct, own = ids[tokens].unique(return_inverse=True)
    directions = circuits.directions(distinct.to(maps.output.device))
    values = maps.of_heads(inputs.value.float().to(maps.output.device))[:, tokens]
    written = (values @ maps.output.mT @ directions.T).cpu()  # (heads, tokens, distinct)
    ranks = (written > written.gather(2, own.expand(len(written), -1)[..., None])).sum(-1)
    most = max(1, round(MOST_RAISED * len(distinct)))
    weights = layer.maps()[:, queries].nan_to_num(0).abs().double()
    of_tokens = weights[..., tokens].sum(1) * (torch.tensor(tokens) > int(keys.long().argmax()))
    shares = [(of_tokens * chosen).sum(-1) for chosen in (ranks < most, ranks >= len(distinct) - most)]
    return (torch.stack(shares) / weights.sum((1, 2))).numpy()
