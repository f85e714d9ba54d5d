"""The whole computation of attention, every stage kept."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from operator import index

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnviz.biases import Bias
from attnviz.inputs import Inputs
from attnviz.masks import Full, Mask
from attnviz.normalizers import Normalizer, Softmax
from attnviz.scores import ScaledDot, Score

# Rows are computed in whole blocks of this many, whatever rows are asked for: a matrix product of another
# shape adds up in another order, and its last digit differs.
BLOCK = 512

Pick = slice | int | Sequence[int]
Positions = tuple[Int[Tensor, "..."], Int[Tensor, "..."], Int[Tensor, "..."], Int[Tensor, "..."]]


@dataclass(frozen=True, eq=False)
class Attention:
    """Every stage of attention, for the heads and query rows that were asked for."""

    raw: Float[Tensor, "*heads rows keys"]  # what the score function gives; of several maps, the first
    scores: Float[Tensor, "*heads rows keys"]  # after biases and mask; -inf where not allowed
    allowed: Bool[Tensor, "*heads rows keys"]
    weights: Float[Tensor, "*heads rows keys"]  # all zero in a row where nothing is allowed
    output: Float[Tensor, "*heads rows d_v"]  # weights @ value


@dataclass(frozen=True)
class Mechanism:
    """How to attend: a score, biases, a mask and a normalizer, without any of the example's numbers.

    Attention(Q, K, V) = normalizer(mask(biases(score(Q, K)))) V, after Vaswani et al. 2017.
    """

    score: Score = ScaledDot()
    biases: tuple[Bias, ...] = ()
    mask: Mask = Full()
    normalizer: Normalizer = Softmax()

    def __call__(self, inputs: Inputs, *, heads: Pick = slice(None), rows: Pick = slice(None)) -> Attention:
        """Attention of one example, for the heads and query rows picked by a slice or by positions.

        What is picked is exactly, to the last bit, what the whole would have there.
        Raises IndexError when a position is out of range, ValueError when widths do not fit the score or
        the normalizer.
        """
        picked = _positions(heads, inputs.heads, "head")
        wanted = _positions(rows, inputs.queries, "row")
        starts = sorted({row - row % BLOCK for row in wanted})
        computed = [row for start in starts for row in range(start, min(start + BLOCK, inputs.queries))]
        shape = (len(picked), len(computed), inputs.keys)

        device = inputs.query.device
        b, h = torch.tensor(0, device=device), torch.tensor(picked, device=device)[:, None, None]
        q, k = torch.tensor(computed, device=device)[:, None], torch.arange(inputs.keys, device=device)
        bound = self.bind(inputs.queries, inputs.keys, inputs.heads)
        allowed = bound.mask(b, h, q, k).expand(shape)
        whole = {"allowed": allowed}
        for i, head in enumerate(picked):
            for first in range(0, len(computed), BLOCK):
                here = slice(first, first + BLOCK)
                part = bound.stages(
                    inputs.query[head, computed[first] : computed[first] + BLOCK],
                    inputs.key[inputs.kv_head(head)],
                    inputs.value_of(head),
                    allowed[i, here],
                    (b, h[i, 0], q[here], k),
                )
                for stage in ("raw", "scores", "weights", "output"):
                    piece = getattr(part, stage)
                    if stage not in whole:
                        whole[stage] = piece.new_empty(*shape[:2], piece.shape[-1])
                    whole[stage][i, here] = piece
        if computed != wanted:
            place = {row: i for i, row in enumerate(computed)}
            cut = torch.tensor([place[row] for row in wanted], device=device)
            whole = {stage: array[:, cut] for stage, array in whole.items()}
        return Attention(**whole)

    def bind(self, queries: int, keys: int, heads: int) -> "Mechanism":
        """Returns this mechanism with its mask, biases and normalizer bound to so many queries, keys and heads."""
        mask = self.mask.bind(queries, keys, heads)
        biases = tuple(bias.with_mask(mask).bind(queries, keys, heads) for bias in self.biases)
        return replace(self, biases=biases, mask=mask, normalizer=self.normalizer.bind(queries, keys, heads))

    def swapped(self, before: "Mechanism", after: "Mechanism") -> "Mechanism":
        """This mechanism with those parts exchanged in which `after` differs from `before`."""
        parts = {part.name: getattr(after, part.name) for part in fields(self)}
        return replace(self, **{name: part for name, part in parts.items() if part != getattr(before, name)})

    def stages(
        self,
        query: Float[Tensor, "*heads rows d_q"],
        key: Float[Tensor, "*heads keys d_k"],
        value: Float[Tensor, "*heads keys d_v"],
        allowed: Bool[Tensor, "..."],
        at: Positions,
    ) -> Attention:
        """Every stage for tensors with any leading axes, in one piece.

        `allowed` is what the mask says, and `at` the positions of batch, head, query and key that it
        was asked about; both broadcast against the scores. Of a mechanism that depends on how many
        there are, ask one that `bind` has given.
        """
        parts = zip(self._parts(query), self._parts(key), strict=True)
        raw = [self.score(*part) for part in parts]
        maps = list(raw)
        for bias in self.biases:
            maps = [bias(scores, *at) for scores in maps]
        maps = [torch.where(allowed, scores, -torch.inf) for scores in maps]
        weights = self.normalizer(torch.stack(maps) if len(maps) > 1 else maps[0], at[1])
        return Attention(raw[0], maps[0], allowed.expand(maps[0].shape), weights, weights @ value)

    def _parts(self, vectors: Float[Tensor, "*heads tokens width"]) -> tuple[Tensor, ...]:
        """Queries or keys in as many equal parts as the normalizer wants maps of scores."""
        count, width = self.normalizer.maps, vectors.shape[-1]
        if width % count:
            raise ValueError(
                f"{type(self.normalizer).__name__} cuts every head into {count} equal parts, and vectors of width "
                f"{width} cannot be cut so. Choose another normalizer, or another number of heads."
            )
        return vectors.chunk(count, dim=-1)


def blocks(count: int) -> Iterator[tuple[int, int]]:
    """The first row of each block of so many rows, and the one after its last."""
    for first in range(0, count, BLOCK):
        yield first, min(first + BLOCK, count)


def _positions(pick: Pick, count: int, name: str) -> list[int]:
    pick = [pick] if isinstance(pick, int) else pick
    positions = list(range(count)[pick]) if isinstance(pick, slice) else [index(i) for i in pick]
    for i in positions:
        if not -count <= i < count:
            raise IndexError(f"There is no {name} {i}: this layer has {count}, counted from 0.")
    if not positions:
        raise IndexError(f"No {name} was picked. This layer has {count}, counted from 0.")
    return [i % count for i in positions]
