"""Metrics of attention heads: entropy, mean distance, and the share of attention on certain keys.

A metric is a mean over queries, weighted by the sum of each query's weights. With softmax all queries have the same
weight; with a sink or excluded keys, a query counts by the sum that remains. A share is therefore a share of all
attention of the head (as in Vig & Belinkov 2019), and rows with almost no attention are not scaled up. Empty rows are
ignored, and so is padding (`attnviz.tracing.read_positions`); a share ignores queries that may look at no other keys,
whose share is 1 in every head. Negative weights count by their absolute value.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnviz.inputs import MapAxes
from attnviz.layer import FixedWeights, Kind, Layer
from attnviz.mechanism import BLOCK, Mechanism
from attnviz.results import MeasuredResult
from attnviz.tracing.read_positions import read_tokens

Excluded = Literal["none", "first", "special"]


@dataclass(frozen=True, eq=False)
class KeyTokens:
    """The tokens of the keys."""

    tokens: Int[Tensor, " keys"]  # equal tokens have equal numbers
    special: Bool[Tensor, " keys"]  # True for tokens that the tokenizer added
    first: int  # the position of the first that is read


@dataclass(frozen=True, eq=False)
class QueryBlock:
    """The weights of heads for a block of queries."""

    weights: Float[Tensor, "*heads rows keys"]  # absolute values; 0 on excluded keys
    mass: Float[Tensor, "*heads rows"]  # the sum of each row
    allowed: Bool[Tensor, "*#heads rows keys"]  # neither a query nor a key that is excluded

    @property
    def valid(self) -> Bool[Tensor, "*#heads rows"]:
        """Rows that have an allowed key."""
        return self.allowed.any(-1)


Sums = tuple[Float[Tensor, "*heads rows"], Float[Tensor, "*heads rows"]]


@dataclass(frozen=True)
class HeadMetric:
    """One number for each head: a sum over its queries, divided by another sum over its queries.

    `__call__` returns the two summands of each query; `factors` returns a factor for each pair of a query and a key.
    The queries whose second summand is not 0 are the positions that the metric rests on. A metric of `one_sequence` is
    defined only where queries and keys are the same tokens, not in cross-attention.
    """

    name: ClassVar[str]
    unit: ClassVar[str] = "share"  # "share" · "bits" · "tokens"
    one_sequence: ClassVar[bool] = False

    def factors(self, q: Int[Tensor, "rows 1"], k: Int[Tensor, " keys"], keys: KeyTokens) -> Tensor | None:
        """Returns the factors for queries and keys at these positions, or None if the metric has none."""
        return None

    def __call__(self, rows: QueryBlock, factors: Float[Tensor, "*#heads rows keys"] | None) -> Sums:
        raise NotImplementedError


class Share(HeadMetric):
    """The share of attention on the keys with factor 1, over the queries that have such a key and may look at another
    one."""

    def __call__(self, rows: QueryBlock, factors: Float[Tensor, "*#heads rows keys"] | None) -> Sums:
        assert factors is not None
        counted = factors > 0
        has_choice = counted.any(-1) & (rows.allowed & ~counted).any(-1)
        return (rows.weights * factors).sum(-1) * has_choice, rows.mass * has_choice


class Entropy(HeadMetric):
    """The Shannon entropy of a query's weights: 0 bits if one key has all the weight, log₂ n if n keys have equal
    weights. 2 to the power of the entropy is the effective number of keys.

    Each row is divided by its sum first, as in Clark et al. 2019.
    """

    name, unit = "Entropy", "bits"

    def __call__(self, rows: QueryBlock, factors: Float[Tensor, "*#heads rows keys"] | None) -> Sums:
        # Of w / m, times m: −Σ w log w + m log m.
        nats = torch.special.entr(rows.weights).sum(-1) + torch.xlogy(rows.mass, rows.mass)
        return nats.clamp(min=0) / math.log(2), rows.mass


class LargestWeight(HeadMetric):
    """The largest weight of a query: near 1 for a head that attends to one key at a time.

    Voita et al. 2019 call it the confidence of a head, and exclude the end-of-sentence token.
    """

    name = "Largest weight"

    def __call__(self, rows: QueryBlock, factors: Float[Tensor, "*#heads rows keys"] | None) -> Sums:
        return rows.weights.amax(-1), rows.mass


class Distance(HeadMetric):
    """The distance |q − k| in tokens from a query to its keys, averaged by attention weight.

    Vig & Belinkov 2019, "Analyzing the Structure of Attention in a Transformer Language Model".
    """

    name, unit, one_sequence = "Distance", "tokens", True

    def factors(self, q: Int[Tensor, "rows 1"], k: Int[Tensor, " keys"], keys: KeyTokens) -> Tensor:
        return (q - k).abs()

    def __call__(self, rows: QueryBlock, factors: Float[Tensor, "*#heads rows keys"] | None) -> Sums:
        assert factors is not None
        return (rows.weights * factors).sum(-1), rows.mass


class Diagonal(Share):
    """The share of attention that tokens give to themselves, the diagonal of the map. A token that may look nowhere
    else is ignored."""

    name, one_sequence = "Itself", True

    def factors(self, q: Int[Tensor, "rows 1"], k: Int[Tensor, " keys"], keys: KeyTokens) -> Tensor:
        return k == q


class Previous(Share):
    """The share of attention that tokens give to the token before them. The first token is ignored."""

    name, one_sequence = "Previous token", True

    def factors(self, q: Int[Tensor, "rows 1"], k: Int[Tensor, " keys"], keys: KeyTokens) -> Tensor:
        return k == q - 1


class Next(Share):
    """The share of attention that tokens give to the token after them. The last token is ignored."""

    name, one_sequence = "Next token", True

    def factors(self, q: Int[Tensor, "rows 1"], k: Int[Tensor, " keys"], keys: KeyTokens) -> Tensor:
        return k == q + 1


class First(Share):
    """The share of attention on the first token, the attention sink of many models. A token that may look nowhere else
    is ignored.

    Xiao et al. 2023, "Efficient Streaming Language Models with Attention Sinks".
    """

    name = "First token"

    def factors(self, q: Int[Tensor, "rows 1"], k: Int[Tensor, " keys"], keys: KeyTokens) -> Tensor:
        return (k == keys.first) & (q >= 0)


class SpecialTokens(Share):
    """The share of attention on tokens that the tokenizer added, such as [CLS] and [SEP]."""

    name = "Special tokens"

    def factors(self, q: Int[Tensor, "rows 1"], k: Int[Tensor, " keys"], keys: KeyTokens) -> Tensor:
        return keys.special[k] & (q >= 0)


class DuplicateToken(Share):
    """The share of attention that tokens give to earlier occurrences of the same token, over repeated tokens.

    High for duplicate-token heads (Wang et al. 2022). Tokens are the same if the tokenizer gives them the same id.
    """

    name, one_sequence = "Same token before", True

    def factors(self, q: Int[Tensor, "rows 1"], k: Int[Tensor, " keys"], keys: KeyTokens) -> Tensor:
        return (keys.tokens[k] == keys.tokens[q]) & (k < q)


class Induction(Share):
    """The share of attention that tokens give to the tokens after earlier occurrences of the same token, over repeated
    tokens. High for induction heads, which predict that a sequence continues as it did before.

    The prefix matching score of Olsson et al. 2022, "In-context Learning and Induction Heads", who take it on repeated
    random tokens.
    """

    name, one_sequence = "Induction", True

    def factors(self, q: Int[Tensor, "rows 1"], k: Int[Tensor, " keys"], keys: KeyTokens) -> Tensor:
        return (keys.tokens[(k - 1).clamp(min=0)] == keys.tokens[q]) & (k > keys.first) & (k < q)


class RowSum(HeadMetric):
    """The sum of a query's weights: 1 with softmax, less with a sink or excluded keys. Empty rows are ignored."""

    name = "Row sum"

    def __call__(self, rows: QueryBlock, factors: Float[Tensor, "*#heads rows keys"] | None) -> Sums:
        return rows.mass, rows.valid.to(rows.mass.dtype).expand_as(rows.mass)


@dataclass(frozen=True, eq=False)
class HeadMetricTable(MeasuredResult):
    """The metrics of heads, one row for each head. NaN where a metric is not defined for a head."""

    layers: Int[np.ndarray, " heads"]  # the index of each head's layer
    heads: Int[np.ndarray, " heads"]  # the index of each head in its layer
    values: dict[str, Float[np.ndarray, " heads"]]  # by the name of the metric
    positions: dict[str, Int[np.ndarray, " heads"]]  # how many queries each value rests on

    @classmethod
    def mean(cls, tables: Sequence["HeadMetricTable"]) -> "HeadMetricTable":
        """Returns the mean of each metric over tables of the same heads; it rests on the positions of all of them."""
        first, names = tables[0], tables[0].values
        return cls(
            first.layers,
            first.heads,
            {name: np.mean([table.values[name] for table in tables], axis=0) for name in names},
            {name: np.sum([table.positions[name] for table in tables], axis=0) for name in names},
        )

    def columns(self) -> dict[str, Any]:
        """Returns the metrics by their names, with a row for each head."""
        return {"layer": self.layers, "head": self.heads} | self.values


OnTable = Callable[[float, HeadMetricTable], None]  # gets the share that is done, and the layers that are finished


def head_metrics(
    layers: Sequence[Layer],
    *,
    excluded_queries: Excluded = "none",
    excluded_keys: Excluded = "none",
    metrics: Sequence[HeadMetric] | None = None,
    progress: OnTable | None = None,
) -> HeadMetricTable:
    """Returns metrics of every head, layer by layer.

    `progress` is called at the start and after each block of queries of a head.

    Example:
        >>> from attnviz.layer import LayerId
        >>> from attnviz.masks import Causal
        >>> from attnviz.inputs import Inputs
        >>> inputs = Inputs(*torch.zeros(3, 1, 4, 8), tuple("abab"), tuple("abab"))
        >>> layer = Layer(LayerId(), Kind.CAUSAL, inputs, Mechanism(mask=Causal()))
        >>> table = head_metrics([layer], metrics=[Entropy(), Distance(), Induction()])
        >>> {name: round(float(values[0]), 2) for name, values in table.values.items()}
        {'Entropy': 1.15, 'Distance': 0.75, 'Induction': 0.29}
        >>> int(table.positions["Induction"][0])  # the second a and the second b
        2
    """
    metrics = HEAD_METRICS if metrics is None else metrics
    compute = partial(_layer_metrics, excluded_queries=excluded_queries, excluded_keys=excluded_keys, metrics=metrics)
    finished = [torch.zeros(2, len(metrics), 0, dtype=torch.float64)]

    def table() -> HeadMetricTable:
        values, positions = torch.cat(finished, dim=2).numpy()
        heads = [one.shape[2] for one in finished[1:]]
        return HeadMetricTable(
            layers=np.repeat(np.arange(len(heads)), heads),
            heads=np.concatenate([np.arange(count) for count in (0, *heads)]),
            values={metric.name: row for metric, row in zip(metrics, values, strict=True)},
            positions={metric.name: row.astype(int) for metric, row in zip(metrics, positions, strict=True)},
        )

    def report(share: float) -> None:
        if progress:
            progress((len(finished) - 1 + share) / len(layers), so_far)

    for layer, read in zip(layers, read_tokens(layers), strict=True):
        so_far = table()
        report(0.0)
        one_sequence = layer.kind is not Kind.CROSS
        finished.append(compute(layer.inputs, layer.mechanism, read, one_sequence=one_sequence, progress=report))
    return table()


def _layer_metrics(
    inputs: MapAxes,
    mechanism: Mechanism | FixedWeights,
    read: tuple[Bool[Tensor, " queries"], Bool[Tensor, " keys"]],
    *,
    one_sequence: bool,
    excluded_queries: Excluded,
    excluded_keys: Excluded,
    metrics: Sequence[HeadMetric],
    progress: Callable[[float], None] | None = None,
) -> Float[Tensor, "2 metrics heads"]:
    """Returns the metrics, and how many positions each rests on. `progress` gets the share that is done."""
    device = inputs.device
    one_sequence = one_sequence and inputs.queries == inputs.keys
    computed = [i for i, metric in enumerate(metrics) if one_sequence or not metric.one_sequence]
    queries, keys = read
    included_queries = _is_included(queries, inputs.special_queries, excluded_queries).to(device)
    included_keys = _is_included(keys, inputs.special_keys, excluded_keys).to(device)
    identities = inputs.key_ids or inputs.key_tokens
    numbers = {one: i for i, one in enumerate(dict.fromkeys(identities))}
    special = torch.zeros(inputs.keys, dtype=torch.bool)
    special[list(inputs.special_keys)] = True
    tokens = KeyTokens(torch.tensor([numbers[one] for one in identities]).to(device), special.to(device), _first(keys))
    k = torch.arange(inputs.keys, device=device)

    dtype = inputs.dtype
    sums = torch.zeros(3, len(metrics), inputs.heads, dtype=torch.float64, device=device)
    for first in range(0, inputs.queries, BLOCK):
        q = torch.arange(first, min(first + BLOCK, inputs.queries), device=device)
        factors: dict[int, Tensor | None] = {}
        for i in computed:
            one = metrics[i].factors(q[:, None], k, tokens)
            factors[i] = None if one is None else one.to(dtype) * included_keys
        for head in range(inputs.heads):
            maps = mechanism(inputs, heads=[head], rows=slice(first, first + BLOCK)).maps[0]
            allowed = ~maps.isnan() & included_keys & included_queries[q, None]
            weights = maps.nan_to_num(0).abs().to(dtype) * included_keys
            rows = QueryBlock(weights, weights.sum(-1), allowed)
            for i in computed:
                sums[:, i, head] += summed(metrics[i], rows, factors[i])
            if progress:
                progress((first + (head + 1) / inputs.heads * len(q)) / inputs.queries)
    sums = sums.cpu()
    return torch.stack([metric_values(sums), sums[2]])


def summed(
    metric: HeadMetric, rows: QueryBlock, factors: Float[Tensor, "*#heads rows keys"] | None
) -> Float[Tensor, "3 *heads"]:
    """Returns the two sums of a metric over queries, and how many queries it rests on."""
    amount, total = (each.double() * rows.valid for each in metric(rows, factors))
    return torch.stack([amount.sum(-1), total.sum(-1), (total > 0).sum(-1)])


def metric_values(sums: Float[Tensor, "3 *heads"]) -> Float[Tensor, "*heads"]:
    """Returns a metric by the sums of all its queries; NaN where it is not defined."""
    return torch.where(sums[1] > 0, sums[0] / sums[1], torch.nan)


def _is_included(
    read: Bool[Tensor, " positions"], special: Sequence[int], excluded: Excluded
) -> Bool[Tensor, " positions"]:
    included = read.clone()
    included[[_first(read)] if excluded == "first" else list(special) if excluded == "special" else []] = False
    return included


def _first(read: Bool[Tensor, " positions"]) -> int:
    return int(read.long().argmax())


HEAD_METRICS: tuple[HeadMetric, ...] = (
    Entropy(), LargestWeight(), Distance(), Diagonal(), Previous(), Next(), First(), SpecialTokens(), DuplicateToken(),
    Induction(), RowSum(),
)  # fmt: skip
