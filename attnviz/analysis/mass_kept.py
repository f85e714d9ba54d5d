"""Mass kept: how much of its attention a head keeps when a sparse mask is laid over its own.

The dense attention is that of a mechanism with its own mask. What a query keeps is the share of its weights that lie on
the keys which the sparse mask allows, too. For a softmax it is exp(lse of these keys − lse of all keys): two
log-sum-exps a query, computed tile by tile, so that queries × keys numbers are never held. Where a normalizer drops a
sink, shares are of what is left on keys.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attnviz.analysis.downsampling import downsample
from attnviz.analysis.engines import Engine
from attnviz.base.language import value_error
from attnviz.inputs import Inputs
from attnviz.layer import Layer
from attnviz.masks import Mask
from attnviz.mechanism import BLOCK, Mechanism
from attnviz.normalizers import Softmax
from attnviz.tracing.read_positions import read_tokens

MOST_WEIGHTS = 1 << 25  # of a block of whole rows
OnShare = Callable[[float], None]  # gets the share that is done; what it raises cancels


@dataclass(frozen=True, eq=False)
class MassKept:
    """The share of its mass that each query of one head keeps under a sparse mask."""

    queries: Int[Tensor, " queries"]  # their positions
    share: Float[Tensor, " queries"]  # 0 to 1; NaN where the dense attention has no mass

    @property
    def mean(self) -> float:
        """The mean over the queries that have mass; NaN if none has."""
        return self.share.nanmean().item()

    def lowest(self, count: int) -> list[tuple[int, float]]:
        """Returns the queries that lose most, each with the share that it loses, most first."""
        lost = (1 - self.share).nan_to_num(nan=-1.0)
        order = lost.argsort(descending=True, stable=True)[:count].tolist()
        return [(int(self.queries[i]), float(lost[i])) for i in order if lost[i] > 0]


@dataclass(frozen=True, eq=False)
class DenseHead:
    """One head with its own mask, and what is computed once for all sparse masks that are laid over it."""

    inputs: Inputs
    mechanism: Mechanism
    head: int
    queries: Int[Tensor, " queries"]  # those that are computed
    lse: Float[Tensor, " queries"] | None  # of these queries; None if the weights are not a softmax
    engine: Engine | None = None

    def kept(self, sparse: Mask, progress: OnShare | None = None) -> MassKept:
        """Returns the mass that is kept under a sparse mask. Raises ValueError if it does not fit the inputs."""
        if self.lse is None:
            return MassKept(self.queries, self._shares_by_rows(sparse, progress))
        both = replace(self.mechanism, mask=self.mechanism.mask & sparse)
        left = _lse(self.inputs, both, self.head, self.queries, self.engine, progress)
        share = (left.double() - self.lse.double()).exp().clamp(max=1).float()
        return MassKept(self.queries, torch.where(self.lse.isinf(), torch.nan, share))

    def _shares_by_rows(self, sparse: Mask, progress: OnShare | None) -> Float[Tensor, " queries"]:
        """Returns the shares from the weights of whole rows, a block of them at a time."""
        inputs, head = self.inputs, self.head
        bound, keys = sparse.bind(inputs.queries, inputs.keys, inputs.heads), torch.arange(inputs.keys)
        shares: list[Tensor] = []
        for rows in self.queries.split(max(1, min(BLOCK, MOST_WEIGHTS // inputs.keys))):
            weights = self.mechanism(inputs, heads=[head], rows=rows.tolist()).weights[0].cpu().double()
            allowed = bound(torch.tensor(0), torch.tensor(head), rows[:, None], keys)
            total, kept = weights.sum(1), torch.where(allowed, weights, 0).sum(1)
            shares.append(torch.where(total > 0, kept / total, torch.nan).float())
            if progress:
                progress(sum(map(len, shares)) / len(self.queries))
        return torch.cat(shares)


def dense_head(
    inputs: Inputs,
    mechanism: Mechanism,
    head: int = 0,
    *,
    sample: int | None = None,
    engine: Engine | None = None,
    progress: OnShare | None = None,
) -> DenseHead:
    """Returns a head with all its queries, or with `sample` of them that are evenly spread.

    Raises ValueError if its weights may be negative.
    """
    normalizer = mechanism.normalizer
    if normalizer.negative:
        raise value_error(
            "{name} has negative weights, so no share of them is kept. Choose another normalizer.",
            name=type(normalizer).__name__,
        )
    count = inputs.queries if sample is None else min(max(1, sample), inputs.queries)
    queries = (2 * torch.arange(count) + 1) * inputs.queries // (2 * count)
    terms = normalizer.bind(inputs.queries, inputs.keys, inputs.heads).softmax_terms(head)
    # A bias that counts the keys of a mask would give other scores under another one.
    if terms is None or any(bias.with_mask(mechanism.mask) is not bias for bias in mechanism.biases):
        return DenseHead(inputs, mechanism, head, queries, None, engine)
    softmax = replace(mechanism, normalizer=Softmax(terms.temperature))
    lse = _lse(inputs, softmax, head, queries, engine, progress)
    return DenseHead(inputs, softmax, head, queries, lse, engine)


def mass_kept(
    inputs: Inputs,
    mechanism: Mechanism,
    sparse: Mask,
    head: int = 0,
    *,
    sample: int | None = None,
    engine: Engine | None = None,
    progress: OnShare | None = None,
) -> MassKept:
    """Returns the share of its mass that each query of a head keeps when a sparse mask is laid over its own.

    `sample` is the number of queries, evenly spread; by default all. Raises ValueError if weights may be negative, or
    if the sparse mask does not fit the inputs.

    Example:
        >>> from attnviz.masks import Causal, SlidingWindow
        >>> inputs = Inputs(*torch.zeros(3, 1, 4, 4), tuple("abcd"), tuple("abcd"))
        >>> kept = mass_kept(inputs, Mechanism(mask=Causal()), SlidingWindow(2))
        >>> kept.share, kept.lowest(1)
        (tensor([1.0000, 1.0000, 0.6667, 0.5000]), [(3, 0.5)])
    """
    halves: list[OnShare | None] = [None, None]
    if progress:
        halves = [lambda share, half=half: progress((half + share) / 2) for half in (0, 1)]  # type: ignore[misc]
    dense = dense_head(inputs, mechanism, head, sample=sample, engine=engine, progress=halves[0])
    return dense.kept(sparse, halves[1])


def mass_kept_by_head(
    layers: Sequence[Layer],
    sparse: Mask,
    *,
    sample: int | None = None,
    progress: Callable[[float, Float[Tensor, "layers heads"]], None] | None = None,
) -> Float[Tensor, "layers heads"]:
    """Returns the mean mass that each head of some layers keeps under a sparse mask, over the queries that are read;
    NaN where there is no such head.

    `progress` is called after each head with the share that is done and the numbers so far, NaN for heads to come.
    Raises ValueError as `mass_kept` does.
    """
    means = torch.full((len(layers), max(layer.inputs.heads for layer in layers)), torch.nan)
    done, total = 0, sum(layer.inputs.heads for layer in layers)
    for i, (layer, (read, _)) in enumerate(zip(layers, read_tokens(layers), strict=True)):
        for head in range(layer.inputs.heads):
            kept = mass_kept(layer.inputs.vectors, layer.known_mechanism, sparse, head, sample=sample)
            means[i, head] = kept.share[read[kept.queries]].nanmean()
            done += 1
            if progress:
                progress(done / total, means.clone())
    return means


def _lse(
    inputs: Inputs,
    mechanism: Mechanism,
    head: int,
    queries: Int[Tensor, " queries"],
    engine: Engine | None,
    progress: OnShare | None,
) -> Float[Tensor, " queries"]:
    """Returns the log-sum-exp of some queries; −∞ where nothing is allowed."""
    sample = None if len(queries) == inputs.queries else len(queries)
    on_progress = (lambda share, _: progress(share)) if progress else None
    one_cell = downsample(inputs, mechanism, head, cells=(1, 1), sample=sample, engine=engine, progress=on_progress)
    return one_cell.lse[queries]
