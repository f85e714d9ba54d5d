"""How alike a query and a key are."""

from dataclasses import dataclass, field
from functools import lru_cache

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import normalize

from attnviz.base.language import value_error
from attnviz.base.parameters import Parameterized
from attnviz.base.tensor_identity import TensorIdentity

Query = Float[Tensor, "*batch queries d_q"]
Key = Float[Tensor, "*batch keys d_k"]
Factors = tuple[Float[Tensor, "*batch queries width"], Float[Tensor, "*batch keys width"]]
Raw = Float[Tensor, "*batch queries keys"]
ROWS_PER_STEP = 16  # queries that an additive score expands at a time: (rows, keys, hidden) numbers


class Score(Parameterized):
    """A similarity of every query with every key, for any leading axes. Shared by all heads."""

    @property
    def work(self) -> int:
        """How many times the work of a dot product one pair of a query and a key takes, roughly."""
        return 1

    def __call__(self, query: Query, key: Key) -> Raw:
        raise NotImplementedError


class DotProduct(Score):
    """A score that is the dot product of a function of the query with a function of the key."""

    def factors(self, query: Query, key: Key) -> Factors:
        """Returns what the dot products are of: score(query, key) = left @ rightᵀ."""
        raise NotImplementedError

    def __call__(self, query: Query, key: Key) -> Raw:
        left, right = self.factors(query, key)
        return left @ right.mT


@dataclass(frozen=True)
class ScaledDot(DotProduct):
    """The dot product of query and key, divided by √d_k so that its spread does not grow with the width.

    Vaswani et al. 2017, "Attention Is All You Need". `scale` replaces the factor 1/√d_k.

    Example:
        >>> ScaledDot()(torch.ones(1, 4), torch.eye(2, 4))
        tensor([[0.5000, 0.5000]])
    """

    scale: float | None = field(default=None, metadata={"min": -1000.0, "max": 1000.0, "empty": "1/√d_k"})

    def factors(self, query: Query, key: Key) -> Factors:
        _same_width(self, query, key)
        scale = query.shape[-1] ** -0.5 if self.scale is None else self.scale
        return query * scale, key


@dataclass(frozen=True)
class Dot(DotProduct):
    """The plain dot product of query and key.

    Luong et al. 2015, "Effective Approaches to Attention-based Neural Machine Translation".

    Example:
        >>> Dot()(torch.ones(1, 4), torch.eye(2, 4))
        tensor([[1., 1.]])
    """

    def factors(self, query: Query, key: Key) -> Factors:
        _same_width(self, query, key)
        return query, key


@dataclass(frozen=True, eq=False, repr=False)
class General(TensorIdentity, DotProduct):
    """Query times a matrix times key, qᵀWk: the matrix projects the query into the keys' space, (qW) · k.

    Luong et al. 2015. W has shape (d_q, d_k), so queries and keys may differ in width. Without a
    matrix of your own it is drawn from the seed, with a spread that keeps scores of unit vectors near 1.

    Example:
        >>> swap = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
        >>> General(weight=swap)(torch.tensor([[1.0, 0.0]]), torch.eye(2))
        tensor([[0., 1.]])
    """

    weight: Float[Tensor, "d_q d_k"] | None = None
    seed: int = field(default=0, metadata={"min": 0, "max": 9999})

    def factors(self, query: Query, key: Key) -> Factors:
        return query @ self.matrix(query.shape[-1], key.shape[-1]).to(query), key

    def matrix(self, d_q: int, d_k: int) -> Float[Tensor, "d_q d_k"]:
        """W for queries and keys of these widths, as it was given or as the seed draws it."""
        return _parameter("W", self.weight, (d_q, d_k), self.seed, 0, (d_q * d_k) ** -0.5)


@dataclass(frozen=True, eq=False, repr=False)
class Additive(TensorIdentity, Score):
    """A small network of query and key, vᵀ tanh(W_q q + W_k k).

    Bahdanau et al. 2014, "Neural Machine Translation by Jointly Learning to Align and Translate".
    W_q has shape (hidden, d_q), W_k (hidden, d_k), v (hidden). What is not given is drawn from the seed.

    Example:
        >>> Additive(hidden=8)(torch.ones(1, 4), torch.eye(2, 4)).shape
        torch.Size([1, 2])
    """

    query_weight: Float[Tensor, "hidden d_q"] | None = None
    key_weight: Float[Tensor, "hidden d_k"] | None = None
    vector: Float[Tensor, " hidden"] | None = None
    hidden: int = field(default=32, metadata={"min": 1, "max": 64, "label": "Hidden width"})
    seed: int = field(default=0, metadata={"min": 0, "max": 9999})

    @property
    def work(self) -> int:
        return self.hidden if self.vector is None else len(self.vector)

    def __call__(self, query: Query, key: Key) -> Raw:
        w_q, w_k, vector = (weight.to(query) for weight in self.matrices(query.shape[-1], key.shape[-1]))
        from_key = (key @ w_k.mT).unsqueeze(-3)
        rows = (query @ w_q.mT).unsqueeze(-2).split(ROWS_PER_STEP, dim=-3)
        return torch.cat([torch.tanh(block + from_key) @ vector for block in rows], dim=-2)

    def matrices(
        self, d_q: int, d_k: int
    ) -> tuple[Float[Tensor, "hidden d_q"], Float[Tensor, "hidden d_k"], Float[Tensor, " hidden"]]:
        """W_q, W_k and v for queries and keys of these widths, as they were given or as the seed draws them."""
        weights = (w for w in (self.query_weight, self.key_weight, self.vector) if w is not None)
        hidden = next((w.shape[0] for w in weights), self.hidden)
        return (
            _parameter("W_q", self.query_weight, (hidden, d_q), self.seed, 0, d_q**-0.5),
            _parameter("W_k", self.key_weight, (hidden, d_k), self.seed, 1, d_k**-0.5),
            _parameter("v", self.vector, (hidden,), self.seed, 2, 2 * hidden**-0.5),
        )


@dataclass(frozen=True)
class Cosine(DotProduct):
    """The cosine of the angle between query and key, divided by τ; lengths do not count.

    Swin Transformer V2 (Liu et al. 2022), where τ is learned. A vector of length zero has cosine 0.

    Example:
        >>> Cosine(tau=1.0)(torch.tensor([[1.0, 0.0]]), torch.tensor([[2.0, 0.0], [0.0, 3.0]]))
        tensor([[1., 0.]])
    """

    tau: float = field(default=1.0, metadata={"min": 0.01, "max": 100.0, "label": "τ"})

    def factors(self, query: Query, key: Key) -> Factors:
        _same_width(self, query, key)
        return normalize(query, dim=-1) / self.tau, normalize(key, dim=-1)


SCORES = (ScaledDot, Dot, General, Additive, Cosine)


def _same_width(score: Score, query: Tensor, key: Tensor) -> None:
    if query.shape[-1] != key.shape[-1]:
        raise value_error(
            "{name} needs queries and keys of the same width; queries have {query_width}, keys "
            "{key_width}. Use General or Additive, whose matrices bridge the two.",
            name=type(score).__name__,
            query_width=query.shape[-1],
            key_width=key.shape[-1],
        )


def _parameter(
    name: str, value: Tensor | None, shape: tuple[int, ...], seed: int, stream: int, spread: float
) -> Tensor:
    if value is None:
        return _normal(seed, stream, shape) * spread
    if value.shape != shape:
        raise value_error(
            "{name} must have shape {shape} for these vectors; it has {got}.",
            name=name,
            shape=shape,
            got=tuple(value.shape),
        )
    return value


@lru_cache(maxsize=64)
def _normal(seed: int, stream: int, shape: tuple[int, ...]) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed * 8 + stream))
