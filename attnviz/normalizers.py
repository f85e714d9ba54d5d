"""How the scores of one query become weights."""

import math
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import torch
from entmax import entmax15, entmax_bisect, sparsemax  # type: ignore[import-untyped]
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import logsigmoid

from attnviz.base.language import value_error
from attnviz.base.parameters import Parameterized
from attnviz.base.tensor_identity import TensorIdentity

ScoreRows = Float[Tensor, "*batch keys"]
Weights = Float[Tensor, "*batch keys"]
Heads = Int[Tensor, "..."] | None  # positions of heads, which broadcast against the scores
ALMOST_1 = 1 + 1e-8  # an α below it is softmax, to all digits that a root of 1 / (α − 1) leaves


class Normalizer(Parameterized):
    """Scores to weights along the last axis, the keys; a score of −∞ is not allowed and gets weight 0.

    A row with nothing allowed gets weights of zero, as in torch's `scaled_dot_product_attention`. `NAME` is what a
    menu calls a normalizer whose class is not named in plain words.
    """

    negative: ClassVar[bool] = False  # whether a weight may be below 0
    row: ClassVar[str] = ""  # what its weights add up to, for a person, where that is not 1
    family: ClassVar[str] = "soft"  # the group it belongs to, for a person
    maps: ClassVar[int] = 1  # maps of scores that it makes weights of, each from an equal part of a head

    @property
    def adds_up(self) -> bool:
        """Whether every row with something allowed adds up to 1."""
        return not self.row

    def __call__(self, scores: ScoreRows, h: Heads = None) -> Weights:
        raise NotImplementedError

    def bind(self, queries: int, keys: int, heads: int) -> "Normalizer":
        """Returns this normalizer for given numbers of queries, keys and heads: itself, unless it depends on them."""
        return self

    def softmax_terms(self, head: int) -> "SoftmaxTerms | None":
        """Returns the terms that write this normalizer as a softmax in this head; None if it is not one."""
        return None


class SoftmaxTerms(NamedTuple):
    """The weights are exp(score / temperature − lse), where lse = log Σ exp(score / temperature), and the sum has one
    more entry, exp(sink)."""

    temperature: float = 1.0
    sink: float = -math.inf


@dataclass(frozen=True)
class Softmax(Normalizer):
    """Each weight is exp(score / temperature), divided by the sum of all: positive, and adding up to 1.

    A low temperature sharpens the row towards its greatest score, a high one flattens it.

    Example:
        >>> Softmax(temperature=1.0)(torch.tensor([0.0, 1.0, 2.0]))
        tensor([0.0900, 0.2447, 0.6652])
        >>> Softmax(temperature=4.0)(torch.tensor([0.0, 1.0, 2.0]))
        tensor([0.2543, 0.3265, 0.4192])
    """

    temperature: float = field(default=1.0, metadata={"min": 0.01, "max": 100.0, "step": 0.1})

    def __call__(self, scores: ScoreRows, h: Heads = None) -> Weights:
        weights = self._weights(scores)
        if not math.isnan(weights.select(-1, 0).sum().item()):
            return weights
        # A row of nothing but −∞ is filled before as well as after, so that no NaN reaches the gradient.
        empty = _empty_rows(scores)
        return self._weights(scores.masked_fill(empty, 0)).masked_fill(empty, 0)

    def softmax_terms(self, head: int) -> SoftmaxTerms | None:
        return SoftmaxTerms(self.temperature)

    def _weights(self, scores: ScoreRows) -> Weights:
        if self.temperature != 1:  # the greatest becomes 0, so that no temperature is too low
            scores = (scores - scores.detach().amax(-1, keepdim=True)) / self.temperature
        return torch.softmax(scores, dim=-1)


@dataclass(frozen=True)
class Hard(Normalizer):
    """All weight on the greatest score, as a dictionary looks up one entry; ties share it.

    The limit of softmax as the temperature goes to 0. It has no gradient.

    Example:
        >>> Hard()(torch.tensor([1.0, 2.0, 2.0]))
        tensor([0.0000, 0.5000, 0.5000])
    """

    family: ClassVar[str] = "sparse"

    def __call__(self, scores: ScoreRows, h: Heads = None) -> Weights:
        greatest = (scores == scores.amax(-1, keepdim=True)) & ~scores.isneginf()
        return greatest.to(scores.dtype) / greatest.sum(-1, keepdim=True).clamp(min=1)


@dataclass(frozen=True)
class Uniform(Normalizer):
    """The same weight on every key that is allowed, whatever the scores.

    The limit of softmax as the temperature goes to infinity.

    Example:
        >>> Uniform()(torch.tensor([1.0, 2.0, -torch.inf]))
        tensor([0.5000, 0.5000, 0.0000])
    """

    def __call__(self, scores: ScoreRows, h: Heads = None) -> Weights:
        allowed = ~scores.isneginf()
        return allowed.to(scores.dtype) / allowed.sum(-1, keepdim=True).clamp(min=1)


@dataclass(frozen=True)
class SoftmaxPlusOne(Normalizer):
    """Softmax with 1 added below the line, exp(score) / (1 + Σ exp): where all scores are low, the head may look
    nowhere. Rows add up to less than 1.

    Miller 2023, "Attention Is Off By One", who calls it quiet attention. torch's `add_zero_attn` does the same, by a
    key and a value of zeros.

    Example:
        >>> SoftmaxPlusOne()(torch.tensor([0.0, 0.0]))
        tensor([0.3333, 0.3333])
    """

    family: ClassVar[str] = "with a sink"
    row: ClassVar[str] = "A row adds up to less than 1: the rest goes nowhere."

    def __call__(self, scores: ScoreRows, h: Heads = None) -> Weights:
        return _with_sink(scores, scores.new_zeros(()))

    def softmax_terms(self, head: int) -> SoftmaxTerms | None:
        return SoftmaxTerms(sink=0.0)


@dataclass(frozen=True, eq=False, repr=False)
class Sink(TensorIdentity, Normalizer):
    """Softmax with one more entry, of its own logit, whose weight is then dropped: a place for attention that no key
    deserves. Rows add up to less than 1; the higher the logit, the less.

    gpt-oss (OpenAI 2025), where each head learns its logit. A logit of 0 is softmax plus one. In code, a tensor may
    hold a logit for each head.

    Example:
        >>> Sink(1.0)(torch.tensor([0.0, 0.0]))
        tensor([0.2119, 0.2119])
    """

    family: ClassVar[str] = "with a sink"
    row: ClassVar[str] = "A row adds up to less than 1: the rest goes to the sink."

    logit: float | Float[Tensor, "..."] = field(default=0.0, metadata={"min": -1000.0, "max": 1000.0})

    def __post_init__(self) -> None:
        if not bool(torch.as_tensor(self.logit).isfinite().all()):
            raise value_error("Sink needs finite logits; it got {logits}.", logits=torch.as_tensor(self.logit).tolist())

    def bind(self, queries: int, keys: int, heads: int) -> Normalizer:
        if isinstance(self.logit, Tensor) and self.logit.ndim and self.logit.shape != (heads,):
            raise value_error(
                "Sink needs a logit for each of {heads} heads; its logits are of shape {shape}.",
                heads=heads,
                shape=tuple(self.logit.shape),
            )
        return self

    def __call__(self, scores: ScoreRows, h: Heads = None) -> Weights:
        logit = torch.as_tensor(self.logit).to(scores)
        if logit.ndim:
            if h is None:
                raise value_error(
                    "Sink has a logit for each of {count} heads: give h, the positions of the heads.",
                    count=len(logit),
                )
            logit = logit[h]
        return _with_sink(scores, logit)

    def softmax_terms(self, head: int) -> SoftmaxTerms | None:
        logits = torch.as_tensor(self.logit)
        return SoftmaxTerms(sink=float(logits[head] if logits.ndim else logits))


@dataclass(frozen=True)
class Sparsemax(Normalizer):
    """The weights nearest to the scores among all that are positive or zero and add up to 1: low scores get exactly 0.

    Martins & Astudillo 2016, "From Softmax to Sparsemax", as their `entmax` package computes it.

    Example:
        >>> Sparsemax()(torch.tensor([0.0, 0.5, 2.0]))
        tensor([0., 0., 1.])
    """

    family: ClassVar[str] = "sparse"

    def __call__(self, scores: ScoreRows, h: Heads = None) -> Weights:
        return Entmax(2.0)(scores)


@dataclass(frozen=True)
class Entmax(Normalizer):
    """A softmax that gives low scores exactly 0, the more of them the higher α: α = 1 is softmax, α = 2 sparsemax.
    Rows add up to 1.

    Peters et al. 2019, "Sparse Sequence-to-Sequence Models", as their `entmax` package computes it: exactly for
    α = 1.5 and 2, else by bisection in double precision, which leaves an error below 0.00002.

    Example:
        >>> Entmax(1.5)(torch.tensor([0.0, 1.0, 2.0]))
        tensor([0.0000, 0.1693, 0.8307])
    """

    family: ClassVar[str] = "sparse"

    alpha: float = field(default=1.5, metadata={"min": 1.0, "max": 4.0, "label": "α", "step": 0.25})

    def __post_init__(self) -> None:
        if not 1 <= self.alpha <= 4:
            raise value_error("Entmax needs an α from 1 to 4; it got {alpha}.", alpha=self.alpha)

    def __call__(self, scores: ScoreRows, h: Heads = None) -> Weights:
        if self.alpha < ALMOST_1:
            return Softmax()(scores)
        empty = _empty_rows(scores)
        scores = scores.masked_fill(empty, 0)
        if self.alpha == 1.5:
            weights = entmax15(scores, dim=-1)
        elif self.alpha == 2:
            weights = sparsemax(scores, dim=-1)
        else:  # above α = 2 a small weight is a root of a smaller number, which single precision cannot tell from 0
            exact = scores.double()
            exact = exact - exact.detach().amax(-1, keepdim=True)
            weights = entmax_bisect(exact, self.alpha, dim=-1).to(scores.dtype)
        return weights.masked_fill(empty, 0)


@dataclass(frozen=True)
class TopK(Normalizer):
    """Softmax over the k greatest scores of the row alone; all others get exactly 0. Scores that tie for the last
    place all stay. Rows add up to 1.

    Zhao et al. 2019, "Explicit Sparse Transformer". Where a query sees no more than k keys it is softmax.

    Example:
        >>> TopK(2)(torch.tensor([0.0, 1.0, 2.0]))
        tensor([0.0000, 0.2689, 0.7311])
    """

    family: ClassVar[str] = "sparse"
    NAME: ClassVar[str] = "Top-k softmax"

    k: int = field(default=4, metadata={"min": 1, "max": 4096, "label": "Keys kept"})

    def __call__(self, scores: ScoreRows, h: Heads = None) -> Weights:
        greatest = scores.detach().topk(min(self.k, scores.shape[-1]), dim=-1).values
        return Softmax()(scores.masked_fill(scores < greatest[..., -1:], -torch.inf))


@dataclass(frozen=True)
class Sigmoid(Normalizer):
    """Each key by itself, whatever the others: the sigmoid of score − log n, where n is how many keys the query may
    see. A row may add up to anything from 0 to n.

    Ramapuram et al. 2024, "Theory, Analysis, and Best Practices for Sigmoid Self-Attention". Their n is the length of
    the sequence; with a mask, the keys that a query sees are its sequence here.

    Example:
        >>> Sigmoid()(torch.tensor([0.0, 1.0, 2.0]))
        tensor([0.2500, 0.4754, 0.7112])
    """

    family: ClassVar[str] = "not adding up to 1"
    row: ClassVar[str] = "A row may add up to more or less than 1: each key is weighed by itself, between 0 and 1."

    def __call__(self, scores: ScoreRows, h: Heads = None) -> Weights:
        return torch.sigmoid(scores - torch.log(_allowed_counts(scores)))


@dataclass(frozen=True)
class ReLU(Normalizer):
    """Each key by itself: its score divided by n, how many keys the query may see; 0 where the score is negative.
    A row may add up to anything, and a weight may be above 1.

    Wortsman et al. 2023, "Replacing softmax with ReLU in Vision Transformers". Their n is the length of the sequence;
    with a mask, the keys that a query sees are its sequence here.

    Example:
        >>> ReLU()(torch.tensor([-1.0, 1.0, 2.0]))
        tensor([0.0000, 0.3333, 0.6667])
    """

    family: ClassVar[str] = "not adding up to 1"
    NAME: ClassVar[str] = "ReLU"
    row: ClassVar[str] = "A row may add up to anything: each key is weighed by itself, and a weight may be above 1."

    def __call__(self, scores: ScoreRows, h: Heads = None) -> Weights:
        return torch.relu(scores) / _allowed_counts(scores)


@dataclass(frozen=True)
class Softpick(Normalizer):
    """A softmax that counts from score 0: exp(score) − 1, or 0 where that is negative, divided by the sum of the
    sizes |exp(score) − 1| of all. Negative scores get exactly 0, and rows add up to at most 1.

    Zuhri et al. 2025, "Softpick: No Attention Sink, No Massive Activations with Rectified Softmax", with the ε of
    the authors' code, 10⁻⁸, added to the sum.

    Example:
        >>> Softpick()(torch.tensor([-1.0, 1.0, 2.0]))
        tensor([0.0000, 0.1966, 0.7311])
    """

    family: ClassVar[str] = "not adding up to 1"
    row: ClassVar[str] = "A row adds up to at most 1: keys of negative scores get none, and take from the others."

    def __call__(self, scores: ScoreRows, h: Heads = None) -> Weights:
        # Above and below the line multiplied by exp(−greatest), so that nothing is too large.
        greatest = scores.detach().amax(-1, keepdim=True).clamp(min=0)
        above, below = scores.clamp(min=0), scores.masked_fill(scores.isneginf(), 0).clamp(max=0)
        scale = torch.exp(-greatest)
        positive = -torch.exp(above - greatest) * torch.expm1(-above)  # exp(above) − 1, with all its digits near 0
        negative = -torch.expm1(below) * scale
        return positive / ((positive + negative).sum(-1, keepdim=True) + 1e-8 * scale)


@dataclass(frozen=True)
class StickBreaking(Normalizer):
    """A stick of length 1 is broken key by key, from the last one that the query may see back to the first: each
    takes the share σ(score) of what those after it have left. Near keys go first, and rows add up to less than 1.

    Tan et al. 2024, "Scaling Stick-Breaking Attention". It needs the order of keys, so it belongs with a causal
    mask; in the paper a query does not see itself.

    Example:
        >>> StickBreaking()(torch.tensor([0.0, 0.0, 0.0]))
        tensor([0.1250, 0.2500, 0.5000])
    """

    family: ClassVar[str] = "not adding up to 1"
    NAME: ClassVar[str] = "Stick-breaking"
    row: ClassVar[str] = "A row adds up to less than 1: the rest of the stick is left over."

    def __call__(self, scores: ScoreRows, h: Heads = None) -> Weights:
        # In logarithms; the cumulated ones begin with a key's next, as a large score of its own would drown theirs.
        refused = logsigmoid(-scores[..., 1:])
        left = torch.cat([refused.flip(-1).cumsum(-1).flip(-1), torch.zeros_like(scores[..., :1])], dim=-1)
        return torch.exp(logsigmoid(scores) + left)


@dataclass(frozen=True)
class Differential(Normalizer):
    """The difference of two softmaxes, softmax(S₁) − λ · softmax(S₂), so that what both see is canceled. Each head is
    cut in two: the first halves of query and key give the scores S₁, the second halves S₂. Rows add up to 1 − λ, and
    weights may be negative.

    Ye et al. 2024, "Differential Transformer", where λ is learned, and begins at 0.8 − 0.6 · exp(−0.3 · (l − 1)) in
    layer l = 1, 2, …, which nears the 0.8 here. The paper also rescales each head's output, which is not done here.

    Example:
        >>> Differential(0.5)(torch.tensor([[[[0.0, 1.0]]], [[[0.0, 0.0]]]]))
        tensor([[[0.0189, 0.4811]]])
    """

    family: ClassVar[str] = "not adding up to 1"
    negative: ClassVar[bool] = True
    row: ClassVar[str] = "A row adds up to 1 − λ, and weights may be negative."
    maps: ClassVar[int] = 2

    lam: float = field(default=0.8, metadata={"min": 0.0, "max": 1.0, "label": "λ", "step": 0.1})

    def __post_init__(self) -> None:
        if not 0 <= self.lam <= 1:
            raise value_error("Differential needs a λ from 0 to 1; it got {lam}.", lam=self.lam)

    def __call__(self, scores: Float[Tensor, "*maps_batch keys"], h: Heads = None) -> Weights:
        if len(scores) != 2 or scores.ndim == 1:
            raise value_error(
                "Differential needs two maps of scores along the first axis, one for each half of "
                "a head; its scores are of shape {shape}.",
                shape=tuple(scores.shape),
            )
        first, second = Softmax()(scores)
        return first - self.lam * second


@dataclass(frozen=True)
class Identity(Normalizer):
    """The scores themselves as weights.

    Example:
        >>> Identity()(torch.tensor([0.25, 0.75]))
        tensor([0.2500, 0.7500])
    """

    negative: ClassVar[bool] = True
    row: ClassVar[str] = "A row adds up to whatever it was given, and weights may be negative."

    def __call__(self, scores: ScoreRows, h: Heads = None) -> Weights:
        return scores.masked_fill(scores.isneginf(), 0)


# Identity shows scores and is in no menu.
NORMALIZERS = (
    Softmax, Uniform, SoftmaxPlusOne, Sink, Hard, Sparsemax, Entmax, TopK, Sigmoid, ReLU, Softpick, StickBreaking,
    Differential,
)  # fmt: skip


def _empty_rows(scores: Float[Tensor, "*batch keys"]) -> Bool[Tensor, "*batch 1"]:
    """Returns which rows have nothing allowed."""
    return scores.detach().amax(-1, keepdim=True).isneginf()


def _allowed_counts(scores: Float[Tensor, "*batch keys"]) -> Float[Tensor, "*batch 1"]:
    """How many keys each row allows; 1 where it allows none."""
    return (~scores.isneginf()).sum(-1, keepdim=True).clamp(min=1).to(scores.dtype)


def _with_sink(scores: Float[Tensor, "*batch keys"], logit: Float[Tensor, "..."]) -> Float[Tensor, "*batch keys"]:
    """Softmax with one more entry, which is then dropped; the greatest of all becomes 0, so that none is too large."""
    greatest = torch.maximum(scores.detach().amax(-1, keepdim=True), logit.detach())
    weights = torch.exp(scores - greatest)
    return weights / (weights.sum(-1, keepdim=True) + torch.exp(logit - greatest))
