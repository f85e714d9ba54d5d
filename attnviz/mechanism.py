"""The whole computation of attention, with every stage."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from operator import index

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnviz.base.formatting import dimensions
from attnviz.base.interruption import end_if_unwanted
from attnviz.base.language import _, value_error
from attnviz.biases import Bias
from attnviz.inputs import MapAxes
from attnviz.masks import Full, Mask
from attnviz.normalizers import Normalizer, Softmax
from attnviz.scores import ScaledDot, Score

BLOCK = 512  # rows that are computed at a time where a whole map would not fit into memory

Pick = slice | int | Sequence[int]
Positions = tuple[Int[Tensor, "..."], Int[Tensor, "..."], Int[Tensor, "..."], Int[Tensor, "..."]]


@dataclass(frozen=True, eq=False)
class Attention:
    """All stages of attention, for the selected heads and query rows. weights = normalizer(scores).

    A normalizer of several maps of scores, such as Differential, adds a first axis to `raw` and `scores`, before the
    heads.
    """

    raw: Float[Tensor, "*maps rows keys"]  # what the score function gives
    scores: Float[Tensor, "*maps rows keys"]  # after biases and mask; -inf where not allowed
    allowed: Bool[Tensor, "*heads rows keys"]
    weights: Float[Tensor, "*heads rows keys"]  # zero where not allowed
    output: Float[Tensor, "*heads rows d_v"]  # weights @ value
    query_tokens: tuple[str, ...] = ()  # of the rows; empty where the tokens are not known
    key_tokens: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Attention(weights {dimensions(self.weights.shape)}, output {dimensions(self.output.shape)})"

    @property
    def maps(self) -> Float[Tensor, "*heads rows keys"]:
        """The weights with NaN where not allowed, as figures draw them.

        Example:
            >>> from attnviz.inputs import Inputs
            >>> from attnviz.masks import Causal
            >>> inputs = Inputs(*torch.zeros(3, 1, 2, 8), tuple("ab"), tuple("ab"))
            >>> Mechanism(mask=Causal())(inputs).maps
            tensor([[[1.0000,    nan],
                     [0.5000, 0.5000]]])
        """
        return torch.where(self.allowed, self.weights, torch.nan)


@dataclass(frozen=True)
class Mechanism:
    """How to attend: a score, biases, a mask and a normalizer, without any of the example's numbers.

    Attention(Q, K, V) = normalizer(mask(biases(score(Q, K)))) V, after Vaswani et al. 2017. Raises ValueError if a
    part is a text or a class; `attnviz.masks.parse` makes a mask of its text.

    Example:
        >>> from attnviz.inputs import Inputs
        >>> from attnviz.masks import Causal
        >>> inputs = Inputs(*torch.zeros(3, 2, 4, 8), tuple("abcd"), tuple("abcd"))
        >>> Mechanism(mask=Causal())(inputs, heads=0, rows=1).weights
        tensor([[[0.5000, 0.5000, 0.0000, 0.0000]]])
    """

    score: Score = ScaledDot()
    biases: tuple[Bias, ...] = ()
    mask: Mask = Full()
    normalizer: Normalizer = Softmax()

    def __post_init__(self) -> None:
        _check_part("score", self.score, Score, "scores.ScaledDot()")
        _check_part("mask", self.mask, Mask, 'masks.Causal() or masks.parse("causal")')
        _check_part("normalizer", self.normalizer, Normalizer, "normalizers.Softmax()")
        if not isinstance(self.biases, tuple):
            raise value_error(
                "biases must be a tuple, such as (biases.ALiBi(),); it is {biases}.", biases=repr(self.biases)
            )
        for i, bias in enumerate(self.biases):
            _check_part(f"biases[{i}]", bias, Bias, "biases.ALiBi()")

    def __call__(self, inputs: MapAxes, *, heads: Pick = slice(None), rows: Pick = slice(None)) -> Attention:
        """Returns the attention of one example, for the heads and query rows picked by a slice or by positions.

        Only these are computed, and they agree with those of the whole within 1e-6 of the largest.
        Raises IndexError when a position is out of range, ValueError when widths do not fit the score or
        the normalizer, or when there are only weights.
        """
        end_if_unwanted()
        inputs = inputs.vectors
        heads, rows = picked_positions(heads, inputs.heads, "head"), picked_positions(rows, inputs.queries, "row")
        device, shared = inputs.query.device, inputs.heads // inputs.key.shape[0]
        b, h, q, k = (torch.arange(n, device=device) for n in (1, inputs.heads, inputs.queries, inputs.keys))
        positions = b, h[heads, None, None], q[rows, None], k
        # Of all heads, none that they share is copied.
        kv_heads = heads if shared == 1 or heads == slice(None) else h[heads] // shared
        bound = self.bind(inputs.queries, inputs.keys, inputs.heads)
        vectors = inputs.query[heads][:, rows], inputs.key[kv_heads], inputs.value[kv_heads]
        query, key, value = (one.to(inputs.dtype) for one in vectors)
        attention = bound.stages(query, key, value, bound.mask(*positions), positions)
        names = inputs.query_tokens
        query_tokens = names[rows] if isinstance(rows, slice) else tuple(names[i] for i in rows)
        return replace(attention, query_tokens=query_tokens, key_tokens=inputs.key_tokens)

    def bind(self, queries: int, keys: int, heads: int) -> "Mechanism":
        """Returns this mechanism with its mask, biases and normalizer bound to these numbers of queries, keys and
        heads."""
        mask = self.mask.bind(queries, keys, heads)
        biases = tuple(bias.with_mask(mask).bind(queries, keys, heads) for bias in self.biases)
        return Mechanism(self.score, biases, mask, self.normalizer.bind(queries, keys, heads))

    def updated(self, before: "Mechanism", after: "Mechanism") -> "Mechanism":
        """Returns this mechanism with the parts of `after` that differ from `before`."""
        parts = {part.name: getattr(after, part.name) for part in fields(self)}
        return replace(self, **{name: part for name, part in parts.items() if part != getattr(before, name)})

    def stages(
        self,
        query: Float[Tensor, "*heads rows d_q"],
        key: Float[Tensor, "*kv_heads keys d_k"],
        value: Float[Tensor, "*kv_heads keys d_v"],
        allowed: Bool[Tensor, "..."],
        positions: Positions,
    ) -> Attention:
        """Returns every stage for tensors with any leading axes.

        The last of these are the heads, which may share keys and values (grouped-query attention). `allowed` is what
        the mask says, and `positions` the positions of batch, head, query and key that it was asked about; both
        broadcast against the scores. A mechanism that depends on the lengths must be bound to them.
        """
        raw = scores = _by_group(self.score, self._maps(query), self._maps(key))
        for bias in self.biases:
            scores = bias(scores, *positions)
        if not allowed.min():  # on booleans this is all(), several times as fast
            # The minimum is as exact as torch.where, and four times as fast.
            scores = scores.minimum(torch.where(allowed, torch.inf, -torch.inf).to(scores))
        weights = self.normalizer(scores, positions[1])
        return Attention(raw, scores, allowed.expand_as(weights), weights, _by_group(torch.matmul, weights, value))

    def _maps(self, vectors: Float[Tensor, "*heads tokens width"]) -> Float[Tensor, "*maps tokens part"]:
        """Splits queries or keys into equal parts along a first axis if the normalizer has several maps of scores."""
        count, width = self.normalizer.maps, vectors.shape[-1]
        if width % count:
            raise value_error(
                "{name} cuts every head into {count} equal parts, and vectors of width {width} "
                "cannot be cut so. Choose another normalizer, or another number of heads.",
                name=type(self.normalizer).__name__,
                count=count,
                width=width,
            )
        return vectors if count == 1 else torch.stack(vectors.chunk(count, dim=-1))


def _check_part(name: str, part: object, kind: type, example: str) -> None:
    """Raises ValueError if a part of a mechanism is not an instance of `kind`, but a text or a class."""
    if not isinstance(part, kind):
        raise value_error(
            "{name} must be a {kind}, such as {example}; it is {got}.",
            name=name,
            kind=kind.__name__,
            example=example,
            got=repr(part),
        )


def _by_group(
    function: Callable[[Tensor, Tensor], Tensor],
    left: Float[Tensor, "*heads rows left_width"],
    right: Float[Tensor, "*kv_heads keys right_width"],
) -> Float[Tensor, "*heads rows width"]:
    """Applies a function to all rows that share keys or values, without copying: the heads of one group are
    concatenated."""
    if left.shape[-3:-2] == right.shape[-3:-2]:
        return function(left, right)
    stacked = left.unflatten(-3, (right.shape[-3], -1)).flatten(-3, -2)
    return function(stacked, right).unflatten(-2, (-1, left.shape[-2])).flatten(-4, -3)


def blocks(count: int) -> Iterator[tuple[int, int]]:
    """Yields the first row of each block of `count` rows, and the one after its last.

    Example:
        >>> list(blocks(1000))
        [(0, 512), (512, 1000)]
    """
    for first in range(0, count, BLOCK):
        yield first, min(first + BLOCK, count)


def picked_positions(pick: Pick, count: int, name: str) -> slice | list[int]:
    """Returns a selection as a forward slice, which copies nothing, or as non-negative positions."""
    if isinstance(pick, slice):
        positions: Sequence[int] = range(count)[pick]
    else:
        positions = [index(i) for i in ([pick] if isinstance(pick, int) else pick)]
    if not positions:
        raise IndexError(_("No {name} was picked. This layer has {count}, counted from 0.", name=name, count=count))
    if isinstance(pick, slice) and (pick.step or 1) > 0:
        return pick
    for i in positions:
        if not -count <= i < count:
            raise IndexError(
                _("There is no {name} {i}: this layer has {count}, counted from 0.", name=name, i=i, count=count)
            )
    return [i % count for i in positions]
