"""What heads do, in numbers: how spread their attention is, how far it goes, and how much of it lies on which keys.

A measure is a mean over queries in which each counts as much as it has attention to give: with softmax all count the
same; where a sink or keys that are left out take a part, a query counts by what remains. So a share is a share of all
attention that the head gives (as in Vig & Belinkov 2019), and no row is blown up to say something about next to
nothing. A query that may look at nothing counts nothing, and of a negative weight the size counts.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnviz.inputs import Inputs
from attnviz.layer import Kind, Layer
from attnviz.mechanism import BLOCK, Mechanism

Without = Literal["none", "first", "special"]


@dataclass(frozen=True, eq=False)
class Text:
    """The keys as tokens: equal tokens have equal numbers, and special is what a tokenizer added."""

    tokens: Int[Tensor, " keys"]
    special: Bool[Tensor, " keys"]


@dataclass(frozen=True, eq=False)
class QueryBlock:
    """A block of a head's rows: the sizes of its weights, 0 on keys that are left out."""

    weights: Float[Tensor, "rows keys"]
    mass: Float[Tensor, " rows"]  # what each row adds up to
    seeing: Bool[Tensor, " rows"]  # which count: those that may look at a key, and are not left out


Sums = tuple[Float[Tensor, " rows"], Float[Tensor, " rows"]]


@dataclass(frozen=True)
class HeadMetric:
    """One number for each head: Σ amount / Σ out of, over the queries.

    `counts` says what each key counts for a query, by their positions; where a measure `asks` for one sequence, query
    and key positions must mean the same tokens, as they do not in cross-attention.
    """

    name: ClassVar[str]
    unit: ClassVar[str] = "share"  # "share" · "bits" · "tokens"
    one_sequence: ClassVar[bool] = False

    def counts(self, q: Int[Tensor, "rows 1"], k: Int[Tensor, " keys"], text: Text) -> Tensor | None:
        return None

    def __call__(self, rows: QueryBlock, counts: Float[Tensor, "rows keys"] | None) -> Sums:
        raise NotImplementedError


class Share(HeadMetric):
    """How much of the attention lies on the keys that count, among the queries that have such a key."""

    def __call__(self, rows: QueryBlock, counts: Float[Tensor, "rows keys"] | None) -> Sums:
        assert counts is not None
        return (rows.weights * counts).sum(-1), rows.mass * (counts.amax(-1) > 0)


class Entropy(HeadMetric):
    """How spread a query's attention is: 0 bits on one key alone, log₂ n on n keys alike. 2 to the entropy is how many
    keys alike would be as spread.

    Shannon's entropy of each row scaled to add up to 1, as in Clark et al. 2019.
    """

    name, unit = "Entropy", "bits"

    def __call__(self, rows: QueryBlock, counts: Float[Tensor, "rows keys"] | None) -> Sums:
        # Of w / m, times m: −Σ w log w + m log m.
        nats = torch.special.entr(rows.weights).sum(-1) + torch.xlogy(rows.mass, rows.mass)
        return nats.clamp(min=0) / math.log(2), rows.mass


class LargestWeight(HeadMetric):
    """The largest weight of a query: near 1 for a head that is sure where to look.

    Voita et al. 2019 call it the confidence of a head, and leave out the end of the sentence.
    """

    name = "Largest weight"

    def __call__(self, rows: QueryBlock, counts: Float[Tensor, "rows keys"] | None) -> Sums:
        return rows.weights.amax(-1), rows.mass


class Distance(HeadMetric):
    """How many tokens lie from a query to what it looks at, |q − k|, weighted by attention.

    Vig & Belinkov 2019, "Analyzing the Structure of Attention in a Transformer Language Model".
    """

    name, unit, one_sequence = "Distance", "tokens", True

    def counts(self, q: Int[Tensor, "rows 1"], k: Int[Tensor, " keys"], text: Text) -> Tensor:
        return (q - k).abs()

    def __call__(self, rows: QueryBlock, counts: Float[Tensor, "rows keys"] | None) -> Sums:
        assert counts is not None
        return (rows.weights * counts).sum(-1), rows.mass


class Itself(Share):
    """How much attention tokens give to themselves."""

    name, one_sequence = "Itself", True

    def counts(self, q: Int[Tensor, "rows 1"], k: Int[Tensor, " keys"], text: Text) -> Tensor:
        return k == q


class Previous(Share):
    """How much attention tokens give to the token before; the first has none before it, and does not count."""

    name, one_sequence = "Previous token", True

    def counts(self, q: Int[Tensor, "rows 1"], k: Int[Tensor, " keys"], text: Text) -> Tensor:
        return k == q - 1


class Next(Share):
    """How much attention tokens give to the token after; the last has none after it, and does not count."""

    name, one_sequence = "Next token", True

    def counts(self, q: Int[Tensor, "rows 1"], k: Int[Tensor, " keys"], text: Text) -> Tensor:
        return k == q + 1


class First(Share):
    """How much attention goes to the first token, where many models leave what they have no use for.

    Xiao et al. 2023, "Efficient Streaming Language Models with Attention Sinks".
    """

    name = "First token"

    def counts(self, q: Int[Tensor, "rows 1"], k: Int[Tensor, " keys"], text: Text) -> Tensor:
        return (k == 0) & (q >= 0)


class SpecialTokens(Share):
    """How much attention goes to tokens that the tokenizer added, such as [CLS] and [SEP]."""

    name = "Special tokens"

    def counts(self, q: Int[Tensor, "rows 1"], k: Int[Tensor, " keys"], text: Text) -> Tensor:
        return text.special[k] & (q >= 0)


class SameBefore(Share):
    """How much attention tokens give to the same token earlier on, among tokens that have stood there before.

    Duplicate-token heads (Wang et al. 2022). Tokens are the same where they read the same.
    """

    name, one_sequence = "Same token before", True

    def counts(self, q: Int[Tensor, "rows 1"], k: Int[Tensor, " keys"], text: Text) -> Tensor:
        return (text.tokens[k] == text.tokens[q]) & (k < q)


class AfterSame(Share):
    """How much attention tokens give to what followed the same token earlier on, among tokens that have stood there
    before: high for induction heads, which repeat what came next the last time.

    The prefix matching of Olsson et al. 2022, "In-context Learning and Induction Heads", on the text at hand instead
    of random tokens repeated; where a token stood there several times, the attention to all that followed is summed.
    """

    name, one_sequence = "After the same token", True

    def counts(self, q: Int[Tensor, "rows 1"], k: Int[Tensor, " keys"], text: Text) -> Tensor:
        return (text.tokens[(k - 1).clamp(min=0)] == text.tokens[q]) & (k > 0) & (k < q)


class RowSum(HeadMetric):
    """What the weights of a query add up to: 1 with softmax, less where a sink or keys that are left out take a part.
    Queries that may look at nothing do not count."""

    name = "Row sum"

    def __call__(self, rows: QueryBlock, counts: Float[Tensor, "rows keys"] | None) -> Sums:
        return rows.mass, rows.seeing.to(rows.mass.dtype)


@dataclass(frozen=True, eq=False)
class HeadMetricTable:
    """A table of heads, a column each measure, with NaN where a head has no such number."""

    layers: Int[np.ndarray, " heads"]  # the place of each head's layer in the list of layers
    heads: Int[np.ndarray, " heads"]  # the head within its layer
    values: dict[str, Float[np.ndarray, " heads"]]  # by the name of the measure


def head_metrics(
    layers: Sequence[Layer],
    mechanisms: Sequence[Mechanism] | None = None,
    *,
    without_queries: Without = "none",
    without_keys: Without = "none",
    measures: Sequence[HeadMetric] | None = None,
) -> HeadMetricTable:
    """Every measure of every head, layer by layer, with the layers' own mechanisms unless others are given."""
    mechanisms = mechanisms or [layer.mechanism for layer in layers]
    measures = HEAD_METRICS if measures is None else measures
    without = {"without_queries": without_queries, "without_keys": without_keys}
    made = [
        layer_metrics(layer.inputs, mechanism, one_sequence=layer.kind is not Kind.CROSS, measures=measures, **without)
        for layer, mechanism in zip(layers, mechanisms, strict=True)
    ]
    values = torch.cat(made, dim=1).numpy()
    counts = [layer.inputs.heads for layer in layers]
    return HeadMetricTable(
        layers=np.repeat(np.arange(len(layers)), counts),
        heads=np.concatenate([np.arange(count) for count in counts]),
        values={measure.name: row for measure, row in zip(measures, values, strict=True)},
    )


def layer_metrics(
    inputs: Inputs,
    mechanism: Mechanism,
    *,
    one_sequence: bool = True,
    without_queries: Without = "none",
    without_keys: Without = "none",
    measures: Sequence[HeadMetric] | None = None,
) -> Float[Tensor, "measures heads"]:
    """Every measure of every head of one layer, in float64; NaN where a head has no such number.

    Without the first token or the special ones as queries, they do not count; as keys, what lies on them does not,
    and each query counts by what remains. Computed by blocks of rows: no more than (BLOCK, keys) numbers of a head
    are held. Queries and keys that are not `one_sequence`, or not as many, have no distance.
    """
    measures = HEAD_METRICS if measures is None else measures
    device = inputs.query.device
    one_sequence = one_sequence and inputs.queries == inputs.keys
    asked = [i for i, measure in enumerate(measures) if one_sequence or not measure.one_sequence]
    counted_q = _counted(inputs.queries, inputs.special_queries, without_queries).to(device)
    counted_k = _counted(inputs.keys, inputs.special_keys, without_keys).to(device)
    numbers = {token: i for i, token in enumerate(dict.fromkeys(inputs.key_tokens))}
    special = torch.zeros(inputs.keys, dtype=torch.bool)
    special[list(inputs.special_keys)] = True
    text = Text(torch.tensor([numbers[token] for token in inputs.key_tokens]).to(device), special.to(device))
    k = torch.arange(inputs.keys, device=device)

    dtype = torch.promote_types(inputs.query.dtype, torch.float32)  # half precision cannot count far enough
    sums = torch.zeros(2, len(measures), inputs.heads, dtype=torch.float64, device=device)
    for first in range(0, inputs.queries, BLOCK):
        q = torch.arange(first, min(first + BLOCK, inputs.queries), device=device)
        counts: dict[int, Tensor | None] = {}
        for i in asked:
            one = measures[i].counts(q[:, None], k, text)
            counts[i] = None if one is None else one.to(dtype) * counted_k
        for head in range(inputs.heads):
            attention = mechanism(inputs, heads=[head], rows=slice(first, first + BLOCK))
            seeing = (attention.allowed[0] & counted_k).any(-1) & counted_q[q]
            weights = attention.weights[0].abs().to(dtype) * counted_k
            rows = QueryBlock(weights, weights.sum(-1), seeing)
            for i in asked:
                for sum_, each in zip(sums, measures[i](rows, counts[i]), strict=True):
                    sum_[i, head] += (each.double() * seeing).sum()
    amount, out_of = sums.cpu()
    return torch.where(out_of > 0, amount / out_of, torch.nan)


def _counted(count: int, special: Sequence[int], without: Without) -> Bool[Tensor, " count"]:
    counted = torch.ones(count, dtype=torch.bool)
    counted[[0] if without == "first" else list(special) if without == "special" else []] = False
    return counted


HEAD_METRICS: tuple[HeadMetric, ...] = (
    Entropy(), LargestWeight(), Distance(), Itself(), Previous(), Next(), First(), SpecialTokens(), SameBefore(),
    AfterSame(), RowSum(),
)  # fmt: skip
