"""Blocks of the rows of a softmax, reduced to cells while they are computed.

A tile of scores is held at a time, of some rows and keys, small enough for the cache of a core. Each row is
computed with exp(score − reference), where the reference is about as large as the row's largest score, or 0 if those of
a block are small; the sums over narrow strips of keys give the row's log-sum-exp, and with it the mass of the cells.
What the mask allows for no row of a block is not computed.

Scores are divided by ln 2, and exp is a power of 2: torch's exp of a CPU takes up to 40 times as long where its result
is next to nothing, and exp2 does not.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from attnviz.analysis.allowed_keys import AllowedKeys, allowed_keys
from attnviz.analysis.head_maps import Special
from attnviz.analysis.map_cells import Axis, CellBlock, grouped_maxima, padded_groups
from attnviz.base.cached_property import cached_property
from attnviz.inputs import Inputs
from attnviz.mechanism import Mechanism
from attnviz.normalizers import SoftmaxTerms
from attnviz.scores import DotProduct, Key, Query, Raw

TILE = 1 << 19  # scores
STRIP = 256  # keys at most
SAMPLE = 32  # keys whose scores say how large a row's scores are
LEAST_SUM = 1e-20  # of 2 ** (score − reference): below it single precision has too few digits
SMALL = 32.0  # scores up to here need no reference: 2 ** score has all its digits
MOST_NUMBERS = 1 << 22  # that are gathered at a time
COPIED = 64  # strips at a time
LN_2 = math.log(2)
PerRow = Float[Tensor, " rows"]
PerStrip = Float[Tensor, "rows strips"]


@dataclass(frozen=True, eq=False)
class KeyStrips:
    """Keys in strips of one width, each within one column of cells; a strip that is narrower is padded."""

    positions: Int[Tensor, "strips width"]  # −1 where a strip is padded
    vectors: Float[Tensor, "strips width d"]
    column: Int[Tensor, " strips"]  # of cells
    shown: bool

    @cached_property
    def bounds(self) -> tuple[Int[Tensor, " strips"], Int[Tensor, " strips"]]:
        """The first and the last position of each strip."""
        return self.positions[:, 0].contiguous(), self.positions.amax(1)


def _strips(
    vectors: Float[Tensor, "keys d"], positions: Int[Tensor, " shown"], sizes: Int[Tensor, " columns"], shown: bool
) -> KeyStrips:
    widest = int(sizes.max())
    per_column = -(-widest // STRIP)
    width = -(-widest // per_column)
    index = padded_groups(sizes)
    index = torch.nn.functional.pad(index, (0, per_column * width - widest), value=-1).view(-1, width)
    index = index[(index >= 0).any(1)]
    column = torch.repeat_interleave(torch.arange(len(sizes)), sizes)[index[:, 0]]
    padding = index < 0
    index = positions[index.clamp(min=0)]
    first, count = int(positions[0]), index.numel()
    if count == len(positions) == int(positions[-1]) - first + 1:  # neighbors, and no strip is padded
        return KeyStrips(index, vectors[first : first + count].reshape(*index.shape, -1), column, shown)
    copies = vectors.new_empty(*index.shape, vectors.shape[1])
    for part, rows in zip(copies.split(COPIED), index.split(COPIED), strict=True):
        part[:] = vectors[rows.to(vectors.device)]
    return KeyStrips(index.masked_fill_(padding, -1), copies, column, shown)


@dataclass(frozen=True, eq=False)
class SoftmaxHead:
    """The data that the rows of one head are computed from."""

    mechanism: Mechanism  # bound to the lengths
    head: int
    terms: SoftmaxTerms
    allowed: AllowedKeys
    query: Float[Tensor, "queries d_q"]
    key_width: int
    strips: KeyStrips  # in view
    others: tuple[KeyStrips, ...]  # the rest of the keys; none if the log-sum-exp is known
    rows: Axis
    columns: Axis
    lse: PerRow | None  # of the rows, where it is known
    rescaled: bool

    @property
    def is_dot_product(self) -> bool:
        """Whether scores are products of vectors and nothing else, but for the mask."""
        return isinstance(self.mechanism.score, DotProduct) and not self.mechanism.biases


def softmax_head(
    inputs: Inputs,
    mechanism: Mechanism,
    head: int,
    rows: Axis,
    columns: Axis,
    special: Special,
    lse: PerRow | None,
) -> SoftmaxHead | None:
    """Returns what the rows of a head are computed from; None if its weights are not a softmax."""
    bound = mechanism.bind(inputs.queries, inputs.keys, inputs.heads)
    terms = bound.normalizer.softmax_terms(head)
    if terms is None:
        return None
    query, key = inputs.query_of(head), inputs.key_of(head)
    if isinstance(bound.score, DotProduct) and not bound.biases:
        _, key = bound.score.factors(query[:0], key)
    others = []
    if lse is None:
        in_view = torch.zeros(inputs.keys, dtype=torch.bool)
        in_view[columns.positions] = True
        hidden = torch.zeros(inputs.keys, dtype=torch.bool)
        if special != Special.SHOWN:
            hidden[list(inputs.special_keys)] = True
        for part, shown in ((~in_view & ~hidden, True), (~in_view & hidden, False)):
            positions = part.nonzero()[:, 0]
            if len(positions):
                sizes = torch.tensor([len(one) for one in positions.split(STRIP)])
                others.append(_strips(key, positions, sizes, shown))
    return SoftmaxHead(
        mechanism=bound,
        head=head,
        terms=terms,
        allowed=allowed_keys(mechanism.mask, inputs.queries, inputs.keys, head, inputs.heads),
        query=query,
        key_width=inputs.key.shape[-1],
        strips=_strips(key, columns.positions, columns.sizes, True),
        others=tuple(others),
        rows=rows,
        columns=columns,
        lse=lse,
        rescaled=special == Special.RESCALED,
    )


@dataclass(frozen=True, eq=False)
class SoftmaxBlock:
    """The cells of a block of rows, and the log-sum-exp of each of its rows."""

    cells: CellBlock
    rows: Int[Tensor, " rows"]
    lse: PerRow


def compute_block(head: SoftmaxHead, rows: Int[Tensor, " rows"]) -> SoftmaxBlock:
    """Returns the cells of a block of rows, given by their indices in the axis of rows, in order."""
    return SoftmaxRows(head, rows).block()


class Tile(NamedTuple):
    """Neighboring strips whose scores are held at a time, and the places of some of their keys."""

    strips: slice
    partial: slice | None  # between the first and the last key that only some of the rows may attend to
    padded: Int[Tensor, " padded"]


@dataclass(frozen=True, eq=False)
class Occupied:
    """The strips between the first and the last that hold anything allowed for a block of rows."""

    strips: KeyStrips
    counts: Int[Tensor, "strips width"]  # how many rows may attend to each key
    tiles: list[Tile]  # of all strips that hold anything allowed

    def pick(self, strip: Int[Tensor, " picked"], place: slice, rows: int) -> "Occupied":
        """Returns some places of some strips, as one tile."""
        strips, device = self.strips, self.strips.vectors.device
        vectors = strips.vectors[strip.to(device), place]
        few = KeyStrips(strips.positions[strip, place], vectors, strips.column[strip], strips.shown)
        return _occupied(few, self.counts[strip, place], rows, strip.shape[0])


def _occupied(strips: KeyStrips, counts: Int[Tensor, "strips width"], rows: int, most: int) -> Occupied:
    """Returns strips of `rows` rows, of which `counts` may attend to each key, in tiles of at most `most` strips."""
    width = counts.shape[1]
    padding = strips.positions < 0
    partial, padded = (one.flatten().nonzero()[:, 0].numpy() for one in ((counts < rows) & ~padding, padding))
    index = (counts > 0).any(1).nonzero()[:, 0].numpy()
    tiles = []
    for run in np.split(index, (np.diff(index) > 1).nonzero()[0] + 1) if len(index) else ():
        for first in range(int(run[0]), int(run[-1]) + 1, most):
            stop = min(first + most, int(run[-1]) + 1)
            (hidden, none) = (
                one[slice(*np.searchsorted(one, (first * width, stop * width)))] - first * width
                for one in (partial, padded)
            )
            hull = slice(int(hidden[0]), int(hidden[-1]) + 1) if len(hidden) else None
            tiles.append(Tile(slice(first, stop), hull, torch.from_numpy(none)))
    return Occupied(strips, counts, tiles)


class SoftmaxRows:
    """The computation of one block of rows."""

    def __init__(self, head: SoftmaxHead, rows: Int[Tensor, " rows"]) -> None:
        self.head, self.rows, self.count = head, rows, rows.shape[0]
        self.positions = head.rows.positions[rows]
        self.device = head.query.device
        self.allowed = head.allowed.counts(self.positions)
        self.query = head.query[self.positions.to(self.device)]
        self.unit = head.terms.temperature * LN_2
        self.most_keys = max(STRIP, TILE // self.count)  # of a tile
        self.left = self.query
        if isinstance(head.mechanism.score, DotProduct):
            no_keys = self.query.new_empty(0, head.key_width)
            self.left = head.mechanism.score.factors(self.query, no_keys)[0] / self.unit
        self.buffer = self.query.new_empty(self.count * self.most_keys)
        self.view, *self.others = map(self.occupied, (head.strips, *head.others))

    def occupied(self, strips: KeyStrips) -> Occupied:
        """Returns the strips that hold anything allowed."""
        low, high = strips.bounds
        first = int(torch.searchsorted(high, self.allowed.first))
        stop = int(torch.searchsorted(low, self.allowed.first + len(self.allowed.queries)))
        part = slice(first, max(first, stop))
        some = KeyStrips(strips.positions[part], strips.vectors[part], strips.column[part], strips.shown)
        counts = self.allowed.lookup(some.positions)
        return _occupied(some, counts, self.count, max(1, self.most_keys // counts.shape[1]))

    def block(self) -> SoftmaxBlock:
        """Returns the cells of these rows."""
        head = self.head
        if head.lse is not None:
            # exp(score − lse) is the weight; where nothing is allowed nothing is computed.
            lse = head.lse[self.rows].to(self.query) / LN_2
            reference = lse.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
            sums, maxima = self.reduce(self.view, reference)
            scale = torch.where(lse.isinf(), 0, torch.ones_like(lse))
        else:
            reference = self.largest([one.pick(*_few(one), self.count) for one in (self.view, *self.others)])
            if bool((reference.abs() <= SMALL).all()):
                reference = torch.zeros_like(reference)
            sums, maxima, total, shown = self.all_sums(reference)
            if not bool((total.isfinite() & (total >= LEAST_SUM)).all()):
                reference = self.largest([self.view, *self.others])
                sums, maxima, total, shown = self.all_sums(reference)
            scale = torch.where(total > 0, 1 / total, 0)
            lse = reference + total.log2()
            if head.rescaled:
                weight = torch.where(shown > 0, (total - self.sink(reference)) / shown, 0)
                scale, lse = scale * weight, lse - weight.log2()
        return SoftmaxBlock(self.cells(sums, maxima, reference, scale), self.rows, (lse * LN_2).cpu())

    def sink(self, reference: PerRow) -> PerRow:
        return (self.head.terms.sink / LN_2 - reference).exp2()

    def largest(self, parts: Sequence[Occupied]) -> PerRow:
        """Returns the largest score of each row among some keys; 0 where nothing is allowed."""
        zero = self.query.new_zeros(self.count)
        best = zero + self.head.terms.sink / LN_2
        for part in parts:
            for tile in part.tiles:
                best = best.maximum(self.scores(part, tile, zero).amax(1))
        return torch.where(best.isneginf(), 0, best)

    def all_sums(self, reference: PerRow) -> tuple[PerStrip, PerStrip, PerRow, PerRow]:
        """Returns what `reduce` does for the keys in view, and the sums of all keys and of those that are shown."""
        sums, maxima = self.reduce(self.view, reference)
        shown = total = sums.sum(1)
        for part in self.others:
            more = self.reduce(part, reference)[0].sum(1)
            total = total + more
            shown = shown + more if part.strips.shown else shown
        return sums, maxima, total + self.sink(reference), shown

    def reduce(self, part: Occupied, reference: PerRow) -> tuple[PerStrip, PerStrip]:
        """Returns the sum of 2 ** (score − reference) over each strip, and the maximum of score − reference."""
        sums = self.query.new_zeros(self.count, part.counts.shape[0])
        maxima = torch.full_like(sums, -torch.inf)
        for tile in part.tiles:
            scores = self.scores(part, tile, reference).unflatten(1, (-1, part.counts.shape[1]))
            maxima[:, tile.strips] = scores.amax(-1)
            sums[:, tile.strips] = scores.exp2_().sum(-1)
        return sums, maxima

    # Scores -----------------------------------------------------------------------------------------------------------

    def scores(self, part: Occupied, tile: Tile, reference: PerRow) -> Float[Tensor, "rows keys"]:
        """Returns the scores of some strips less the reference; −∞ where not allowed or padded."""
        vectors, keys = part.strips.vectors[tile.strips].flatten(0, 1), part.strips.positions[tile.strips].flatten()
        if self.head.is_dot_product:
            buffer = self.buffer[: self.count * keys.shape[0]].view(self.count, -1)
            if reference.any():
                scores = torch.addmm(-reference[:, None], self.left, vectors.mT, out=buffer)
            else:  # which is a pass over the scores less
                scores = torch.mm(self.left, vectors.mT, out=buffer)
        else:
            scores = self.other_scores(self.query, vectors, self.positions[:, None], keys) - reference[:, None]
        if tile.partial:
            self.head.allowed.hide(scores[:, tile.partial], self.positions, keys[tile.partial].clamp(min=0))
        return scores.index_fill_(1, tile.padded.to(self.device), -torch.inf) if tile.padded.shape[0] else scores

    def other_scores(self, query: Query, key: Key, queries: Int[Tensor, "..."], keys: Int[Tensor, "..."]) -> Raw:
        """Returns scores with biases, in the unit of this block, at these positions."""
        scores = self.head.mechanism.score(query, key)
        q, k = queries.to(self.device), keys.clamp(min=0).to(self.device)
        zero = q.new_zeros(())
        for bias in self.head.mechanism.biases:
            scores = bias(scores, zero, zero + self.head.head, q, k)
        return scores / self.unit

    # Cells ------------------------------------------------------------------------------------------------------------

    def cells(self, sums: PerStrip, maxima: PerStrip, reference: PerRow, scale: PerRow) -> CellBlock:
        """Returns the cells of these rows; a weight is 2 ** (score − reference) · scale."""
        cell = torch.searchsorted(self.head.rows.starts, self.rows, right=True) - 1
        top, sizes = int(cell[0]), torch.bincount(cell - int(cell[0]))
        columns = self.view.strips.column
        if not len(columns):
            none, number = torch.zeros(len(sizes), 0), torch.zeros(len(sizes), 0, dtype=torch.int64)
            return CellBlock(top, 0, none.double(), none, number, number, number, sizes)
        left, widths = int(columns[0]), torch.bincount(columns - int(columns[0]))
        mass = sums.new_zeros(len(sizes), sums.shape[1], dtype=torch.float64)
        mass.index_add_(0, (cell - top).to(self.device), (sums * scale[:, None]).double())
        mass = mass.new_zeros(len(sizes), len(widths)).index_add_(1, (columns - left).to(self.device), mass)
        # Of each strip the row with the largest weight, then its key, then the strip with the largest of a cell.
        _, row = grouped_maxima((maxima + scale.log2()[:, None]).cpu(), sizes)
        best, key = self.largest_in_strips(row, reference, scale)
        maximum, strip = (one.mT for one in grouped_maxima(best.mT.contiguous(), widths))
        none = maximum.isneginf()
        return CellBlock(
            top,
            left,
            mass.cpu(),
            maximum.exp2().masked_fill(none, -torch.inf),
            self.positions[row.gather(1, strip)].masked_fill(none, -1),
            key.gather(1, strip).masked_fill(none, -1),
            self.allowed_pairs(cell - top, len(sizes), left, len(widths)),
            sizes,
        )

    def largest_in_strips(
        self, row: Int[Tensor, "cells strips"], reference: PerRow, scale: PerRow
    ) -> tuple[Float[Tensor, "cells strips"], Int[Tensor, "cells strips"]]:
        """Returns the logarithm of the largest weight of one row in each strip, and its key."""
        strips, shift, best, keys = self.view.strips, reference - scale.log2(), [], []
        most = max(1, MOST_NUMBERS // (len(row) * max(strips.vectors.shape[1:])))
        for part in range(0, row.shape[1], most):
            rows, positions = row.mT[part : part + most], strips.positions[part : part + most, None]
            vectors, place = strips.vectors[part : part + most], rows.to(self.device)
            queries = self.positions[rows][..., None]
            if self.head.is_dot_product:
                scores = torch.baddbmm(-shift[place][..., None], self.left[place], vectors.mT)
            else:
                scores = self.other_scores(self.query[place], vectors, queries, positions) - shift[place][..., None]
            allowed = self.head.allowed.pairs(queries, positions.clamp(min=0)) & (positions >= 0)
            maxima, index = scores.masked_fill_(~allowed.to(self.device), -torch.inf).max(2)
            best.append(maxima.mT.cpu())
            keys.append(positions[:, 0].gather(1, index.cpu()).mT)
        return torch.cat(best, 1), torch.cat(keys, 1)

    def allowed_pairs(
        self, cell: Int[Tensor, " rows"], count: int, left: int, columns: int
    ) -> Int[Tensor, "cells columns"]:
        """Returns the number of allowed pairs in each cell; `cell` is the row of cells, of `count`, of each row."""
        axis, allowed = self.head.columns, self.head.allowed
        starts = axis.starts[left : left + columns + 1]
        return torch.stack(
            [allowed.group_sums(self.positions[cell == i], axis.positions, starts) for i in range(count)]
        )


def _few(part: Occupied) -> tuple[Int[Tensor, " picked"], slice]:
    """Returns the numbers of a few strips, and the first place of each."""
    count = len(part.counts)
    return torch.linspace(0, max(0, count - 1), min(SAMPLE, count)).long().unique(), slice(0, 1)
