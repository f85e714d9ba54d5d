"""Biases: terms and transformations of scores that may depend on positions; and positional encodings of vectors."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, TypeVar, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attnviz.base.language import value_error
from attnviz.base.parameters import Parameterized
from attnviz.base.tensor_identity import TensorIdentity

T = TypeVar("T")
Scores = Float[Tensor, "*scores"]
Position = Int[Tensor, "*#scores"]  # positions that broadcast against the scores
MaskMod = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]  # a mask, as FlexAttention's `mask_mod`


class Bias(Parameterized):
    """A transformation of scores that may depend on positions, as FlexAttention's `score_mod`.

    b, h, q and k are the positions of batch, head, query and key: integer tensors that broadcast against the scores.
    Queries and keys are both counted from 0. `NAME` is the name in menus, if it differs from the class name.
    """

    def __call__(self, scores: Scores, b: Position, h: Position, q: Position, k: Position) -> Scores:
        raise NotImplementedError

    def bind(self, queries: int, keys: int, heads: int) -> "Bias":
        """Returns this bias for these numbers of queries, keys and heads; itself, if it does not depend on them."""
        return self

    def with_mask(self, mask: MaskMod) -> "Bias":
        """Returns this bias for scores under a bound mask; itself, if it does not depend on the mask."""
        return self


@dataclass(frozen=True)
class ALiBi(Bias):
    """Attention with linear biases: the farther back a key, the more its score loses, −m · (q − k).

    Press et al. 2022, "Train Short, Test Long". The slope m is different for each of the H heads: 2^(−8h/H) for
    h = 1, …, H, where H is a power of two. Otherwise the heads take the slopes of the power P below, then every
    second slope of 2P heads.

    Keys after the query gain by this rule, so it belongs with a causal mask. "symmetric" is another one,
    −m · |q − k|, for attention in both directions.

    Example:
        >>> q, k, zero = torch.tensor([[3]]), torch.arange(4), torch.tensor(0)
        >>> ALiBi().bind(4, 4, heads=8)(torch.ones(1, 4), zero, zero, q, k)
        tensor([[-0.5000,  0.0000,  0.5000,  1.0000]])
    """

    NAME: ClassVar[str] = "ALiBi"

    form: Literal["causal", "symmetric"] = field(default="causal", metadata={"label": "Form"})
    heads: int | None = None  # what `bind` fills in

    def bind(self, queries: int, keys: int, heads: int) -> Bias:
        return replace(self, heads=heads)

    def __call__(self, scores: Scores, b: Position, h: Position, q: Position, k: Position) -> Scores:
        power = 1 << _bound(self, self.heads).bit_length() - 1
        exponent = torch.where(h < power, 8 * (h + 1), 8 * (h - power) + 4).to(scores.dtype) / power
        back = q - k if self.form == "causal" else abs(q - k)
        return scores - torch.exp2(-exponent) * back


@dataclass(frozen=True, eq=False, repr=False)
class T5Buckets(TensorIdentity, Bias):
    """Adds a number for each head and each bucket of distances: near keys have a bucket each, far ones share.

    Raffel et al. 2020 (T5). Half of the buckets hold one distance each, the others grow by a constant factor up
    to the greatest distance, and the last holds all that is farther. "bidirectional" has half of all buckets for
    keys after the query, as T5's encoder; "causal" has none for them and counts them as distance 0, as its decoder.

    The numbers are learned in T5. Here they are drawn from the seed, with mean 0 and variance 1, unless a table of
    shape (buckets, heads) is given.

    Example:
        >>> T5Buckets(buckets=8, max_distance=16).bucket(torch.tensor(9), torch.arange(10))
        tensor([3, 3, 3, 3, 2, 2, 2, 2, 1, 0])
    """

    NAME: ClassVar[str] = "T5 buckets"

    direction: Literal["bidirectional", "causal"] = field(default="bidirectional", metadata={"label": "Direction"})
    buckets: int = field(default=32, metadata={"min": 4, "max": 256})
    max_distance: int = field(default=128, metadata={"min": 16, "max": 4096, "label": "Greatest distance"})
    seed: int = field(default=0, metadata={"min": 0, "max": 9999})
    table: Float[Tensor, "buckets heads"] | None = None

    def __post_init__(self) -> None:
        self.check_choices()  # its numbers may be less than those of its widgets
        if self._near < 1:
            raise value_error(
                "T5Buckets needs 4 buckets or more, 2 where it is causal; it got {buckets}.", buckets=self.buckets
            )
        if self.max_distance <= self._near:
            raise value_error(
                "T5Buckets needs a greatest distance above {near}, the number of distances with a "
                "bucket each. It got {max_distance}.",
                near=self._near,
                max_distance=self.max_distance,
            )

    @property
    def _side(self) -> int:
        """The number of buckets for the keys on one side of the query."""
        return self.buckets // 2 if self.direction == "bidirectional" else self.buckets

    @property
    def _near(self) -> int:
        """The number of buckets that hold a single distance, on one side."""
        return self._side // 2

    def bind(self, queries: int, keys: int, heads: int) -> Bias:
        shape = (self.buckets, heads)
        if self.table is None:
            return replace(self, table=torch.randn(shape, generator=torch.Generator().manual_seed(self.seed)))
        if self.table.shape != shape:
            raise value_error(
                "T5Buckets needs a table of shape {shape}, a number for each bucket and head; it has {got}.",
                shape=shape,
                got=tuple(self.table.shape),
            )
        return self

    def bucket(self, q: Int[Tensor, "*#at"], k: Int[Tensor, "*#at"]) -> Int[Tensor, "*at"]:
        """Returns the bucket of each pair of positions."""
        both = self.direction == "bidirectional"
        distance = abs(k - q) if both else (q - k).clamp(min=0)
        growth = torch.log(distance.clamp(min=self._near).float() / self._near)
        far = growth / math.log(self.max_distance / self._near) * (self._side - self._near)
        bucket = torch.where(distance < self._near, distance, (self._near + far.long()).clamp(max=self._side - 1))
        return bucket + (k > q) * self._side if both else bucket

    def __call__(self, scores: Scores, b: Position, h: Position, q: Position, k: Position) -> Scores:
        return scores + _bound(self, self.table).to(scores.device, scores.dtype)[self.bucket(q, k), h]


@dataclass(frozen=True, eq=False, repr=False)
class Distances(TensorIdentity, Bias):
    """Adds a number for each head and each distance from query to key, as a model has learned it.

    `table` has, for each head, the numbers of the distances k − q from 1 − queries to keys − 1: what is left of a
    whole bias (heads, queries, keys) that depends on the distance alone, such as T5's.

    Example:
        >>> q, k, zero = torch.arange(2)[:, None], torch.arange(2), torch.tensor(0)
        >>> bias = Distances(torch.tensor([[1.0, 2.0, 3.0]]), queries=2)
        >>> bias(torch.zeros(2, 2), zero, zero, q, k)
        tensor([[2., 3.],
                [1., 2.]])
    """

    table: Float[Tensor, "heads distances"]
    queries: int

    def __post_init__(self) -> None:
        if not 1 <= self.queries <= self.table.shape[-1]:
            raise value_error(
                "Distances needs a number for each of queries + keys − 1 distances; its table has "
                "{shape} for {queries} queries.",
                shape=self.table.shape[-1],
                queries=self.queries,
            )

    def bind(self, queries: int, keys: int, heads: int) -> Bias:
        shape = (heads, self.queries + keys - 1)
        if queries != self.queries or self.table.shape != shape:
            raise value_error(
                "Distances is made for {count} heads, {queries} queries and {shape} keys; here "
                "there are {heads}, {got_queries} and {keys}.",
                count=len(self.table),
                queries=self.queries,
                shape=self.table.shape[-1] + 1 - self.queries,
                heads=heads,
                got_queries=queries,
                keys=keys,
            )
        return self

    def __call__(self, scores: Scores, b: Position, h: Position, q: Position, k: Position) -> Scores:
        return scores + self.table.to(scores)[h, k - q + self.queries - 1]


@dataclass(frozen=True)
class KERPLE(Bias):
    """Lowers a score by the distance of its key, quickly at first and then ever more slowly:
    −r₁ · log(1 + r₂ · |q − k|).

    Chi et al. 2022, "KERPLE: Kernelized Relative Positional Embedding". The "power" form is −r₁ · |q − k|^r₂,
    with r₂ at most 2; r₂ = 1 is ALiBi's line. In the paper each head learns its own r₁ and r₂; here all heads
    share one pair, by default the means of the values with which the authors' code starts.

    Example:
        >>> q, k, zero = torch.tensor([[3]]), torch.arange(4), torch.tensor(0)
        >>> KERPLE(r1=1.0, r2=1.0)(torch.ones(1, 4), zero, zero, q, k)
        tensor([[-0.3863, -0.0986,  0.3069,  1.0000]])
    """

    form: Literal["logarithmic", "power"] = field(default="logarithmic", metadata={"label": "Form"})
    r1: float = field(default=1.0, metadata={"min": 0.01, "max": 100.0, "label": "r₁", "step": 0.1})
    r2: float = field(default=0.5, metadata={"min": 0.01, "max": 100.0, "label": "r₂", "step": 0.1})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.form == "power" and self.r2 > 2:
            raise value_error("KERPLE's power form needs an r₂ of at most 2; it got {r2}.", r2=self.r2)

    def __call__(self, scores: Scores, b: Position, h: Position, q: Position, k: Position) -> Scores:
        distance = abs(q - k).to(scores.dtype)
        return scores - self.r1 * (torch.log1p(self.r2 * distance) if self.form == "logarithmic" else distance**self.r2)


@dataclass(frozen=True)
class Sandwich(Bias):
    """Adds what the sinusoids of the two positions have in common, their dot product: Σ cos((q − k) / 10000^(2t/d))
    over t = 1, …, d/2, times H / 8h in head h of H, counted from 1.

    Chi et al. 2023, "Dissecting Transformer Length Extrapolation via the Lens of Receptive Field Analysis", as
    NVIDIA's NeMo has it, but for a constant −d/2 under the sum, which no softmax sees. It falls about as the
    logarithm of the distance, and nothing in it is learned.

    Example:
        >>> q, k, zero = torch.tensor([[3]]), torch.arange(4), torch.tensor(0)
        >>> Sandwich().bind(4, 4, heads=8)(torch.zeros(1, 4), zero, zero, q, k)
        tensor([[54.1762, 58.7980, 62.5534, 64.0000]])
    """

    width: int = field(default=128, metadata={"min": 2, "max": 1024, "label": "Width d of the sinusoids"})
    heads: int | None = None  # what `bind` fills in
    span: int | None = None

    def __post_init__(self) -> None:
        if self.width < 2 or self.width % 2:
            raise value_error(
                "Sandwich needs an even width, half sines and half cosines; it got {width}.", width=self.width
            )

    def bind(self, queries: int, keys: int, heads: int) -> Bias:
        return replace(self, heads=heads, span=max(queries, keys))

    def __call__(self, scores: Scores, b: Position, h: Position, q: Position, k: Position) -> Scores:
        heads, span = _bound(self, self.heads), _bound(self, self.span)
        wavelength = 10000 ** (torch.arange(2, self.width + 1, 2, dtype=torch.float64, device=q.device) / self.width)
        # Once for each distance, not for each pair.
        common = torch.cos(torch.arange(span, device=q.device)[:, None] / wavelength).sum(-1).to(scores.dtype)
        return scores + common[abs(q - k)] * (heads / (8 * (h + 1)))


@dataclass(frozen=True)
class SoftCap(Bias):
    """Squeezes every score between −cap and cap: cap · tanh(score / cap), before the mask.

    Gemma 2 (Gemma Team 2024), where cap is 50.

    Example:
        >>> zero = torch.tensor(0)
        >>> SoftCap(cap=50.0)(torch.tensor([10.0, 100.0, 1000.0]), zero, zero, zero, zero)
        tensor([ 9.8688, 48.2014, 50.0000])
    """

    cap: float = field(default=50.0, metadata={"min": 0.1, "max": 1000.0})

    def __call__(self, scores: Scores, b: Position, h: Position, q: Position, k: Position) -> Scores:
        return torch.tanh(scores / self.cap) * self.cap


@dataclass(frozen=True)
class SSMax(Bias):
    """Multiplies every score by s · log n, where n is how many keys the query may see, so that attention to the best
    key does not fade as there are more.

    SSMax, of Nakanishi 2025, "Scalable-Softmax Is Superior for Attention". A query that sees one key alone has
    log n = 0. In the paper each head of each layer learns its own s; here all share one, by default the 0.43 of the
    paper's first figure.

    Example:
        >>> zero = torch.tensor(0)
        >>> SSMax(s=1.0).bind(1, 8, heads=1)(torch.tensor([1.0, 2.0]), zero, zero, zero, zero)
        tensor([2.0794, 4.1589])
    """

    NAME: ClassVar[str] = "Scalable softmax"

    s: float = field(default=0.43, metadata={"min": 0.0, "max": 10.0, "label": "s", "step": 0.1})
    mask: MaskMod | None = None  # whose allowed keys are counted; None allows all
    keys: int | None = None  # what `bind` fills in

    def bind(self, queries: int, keys: int, heads: int) -> Bias:
        return replace(self, keys=keys)

    def with_mask(self, mask: MaskMod) -> Bias:
        return replace(self, mask=mask)

    def __call__(self, scores: Scores, b: Position, h: Position, q: Position, k: Position) -> Scores:
        keys = _bound(self, self.keys)
        if self.mask is None:
            return scores * (self.s * math.log(keys))
        every = torch.arange(keys, device=q.device)
        allowed = self.mask(b[..., None], h[..., None], q[..., None], every)
        count = (allowed & (every >= 0)).sum(-1)  # a mask that does not look at keys says one thing for all of them
        return scores * (self.s * torch.log(count.clamp(min=1).to(scores.dtype)))


Rotary = Literal["none", "half split", "interleaved"]


def rotated(
    vectors: Float[Tensor, "heads tokens d"], convention: Rotary, base: float = 10000.0
) -> Float[Tensor, "heads tokens d"]:
    """Returns queries or keys with rotary position embeddings (Su et al. 2021, "RoFormer").

    Pair i of the numbers of token t is rotated by t / base^(2i/d), so that a dot product of a query and a key depends
    on their distance only. A pair is (i, i + d/2) with "half split", as in GPT-NeoX and in Hugging Face's Llama, and
    (2i, 2i + 1) with "interleaved", as in RoFormer and GPT-J. "none" returns the vectors unchanged. Raises ValueError
    if d is odd.

    Example:
        >>> rotated(torch.tensor([[[1.0, 0.0], [1.0, 0.0]]]), "half split")
        tensor([[[1.0000, 0.0000],
                 [0.5403, 0.8415]]])
    """
    if convention not in get_args(Rotary):
        raise value_error(
            "Rotary positions are one of {conventions}; {convention} was requested.",
            conventions=", ".join(get_args(Rotary)),
            convention=repr(convention),
        )
    if convention == "none":
        return vectors
    tokens, width = vectors.shape[1:]
    if width % 2:
        raise value_error(
            "Rotary positions turn numbers in pairs, so each head needs an even count of them; "
            "here it is {width}. Choose another number of heads, or no rotary positions.",
            width=width,
        )
    position = torch.arange(tokens, dtype=torch.float64, device=vectors.device)[:, None]
    angle = position / base ** (torch.arange(0, width, 2, device=vectors.device) / width)
    cos, sin = angle.cos().to(vectors.dtype), angle.sin().to(vectors.dtype)
    shape, axis = ((2, -1), -2) if convention == "half split" else ((-1, 2), -1)
    x, y = vectors.unflatten(-1, shape).unbind(axis)
    return torch.stack([x * cos - y * sin, x * sin + y * cos], axis).flatten(-2)


def sinusoids(positions: int, width: int) -> Float[Tensor, "positions width"]:
    """Returns sinusoidal positional encodings: sin and cos of position / 10000^(2i / width), interleaved (Vaswani et
    al. 2017, 3.5).

    Example:
        >>> sinusoids(2, 4)
        tensor([[0.0000, 1.0000, 0.0000, 1.0000],
                [0.8415, 0.5403, 0.0100, 0.9999]])
    """
    angle = torch.arange(positions)[:, None] / 10000 ** (torch.arange(0, width, 2) / width)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)


BIASES = (ALiBi, T5Buckets, KERPLE, Sandwich, SoftCap, SSMax)


def _bound(bias: Bias, value: T | None) -> T:
    """Returns a value that `bind` has set. Raises ValueError if it has not."""
    if value is None:
        raise value_error(
            "{name} depends on what it is for: call bind(queries, keys, heads) first.", name=type(bias).__name__
        )
    return value
