"""Verification that a captured mechanism reproduces the model's attention, in every row where that is cheap."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from attnviz.base.formatting import significant
from attnviz.inputs import Inputs
from attnviz.mechanism import Attention, Mechanism
from attnviz.tracing.call import Call
from attnviz.tracing.multi_head_attention import MultiHeadCall

FEWEST_ROWS = 3
ALWAYS_COMPARED = 1 << 16  # weights, about half a millisecond: all rows of a short text
SHARE_OF_FORWARD = 0.1  # of its time, that the comparison of further rows may take
SMALLEST_TOLERANCE, LARGEST_TOLERANCE = 1e-4, 0.5  # of differences, as shares of the largest number

# Takes a sequence and the first and the last row; returns outputs (1, rows, heads, width) and weights (1, heads, rows,
# keys) of the model's own function.
OwnRows: TypeAlias = Callable[[int, int, int], tuple[Tensor, Tensor]]


@dataclass(frozen=True, eq=False)
class SampledRows:
    """Rows of an example's output and weights, by the model's own function."""

    rows: list[int]
    output: Tensor  # (rows, heads, width)
    weights: Tensor | None  # (heads, rows, keys), or None where only the output is known
    number_type: torch.dtype  # in which the model computes
    count: int  # of all rows

    @classmethod
    def from_call(
        cls, call: Call, sequences: slice, output: Tensor | None = None, rows: list[int] | None = None
    ) -> "SampledRows":
        """Samples rows by the model's own function; outputs instead from an output (sequences, queries, heads, width)
        of all rows, if it is given."""

        def own(sequence: int, first: int, last: int) -> tuple[Tensor, Tensor]:
            one = slice(sequence, sequence + 1)
            if output is None:
                return call.rows(first, last, one)
            return output[one, first:last], call.weights(first, last, one)

        return cls._from_function(own, call, sequences, rows or compared_rows(call, sequences))

    @property
    def has_all(self) -> bool:
        return len(self.rows) == self.count

    @classmethod
    def from_output(cls, call: Call, sequences: slice, output: Tensor) -> "SampledRows":
        """Samples rows of an output (sequences, queries, heads, width)."""
        rows, whole = compared_rows(call, sequences), output[sequences].flatten(0, 1)
        return cls(rows, whole[rows].float().cpu(), None, number_type_of(call, output), len(whole))

    @classmethod
    def from_multi_head(cls, call: Call, own: MultiHeadCall) -> "SampledRows":
        """Samples rows by torch's multi-head attention, of all sequences of a call."""
        sequences = slice(0, len(call.query))
        return cls._from_function(own.rows, call, sequences, compared_rows(call, sequences))

    @classmethod
    def _from_function(cls, own: OwnRows, call: Call, sequences: slice, rows: list[int]) -> "SampledRows":
        (queries, keys), groups = call.lengths, sequences.stop - sequences.start
        outputs, weights, row = [], torch.zeros(call.query.shape[1], len(rows), groups, keys), 0
        own_output = None
        for group, first, last in _runs(rows, queries):
            sequence = sequences.start + group
            own_output, own_weights = own(sequence, first, last)
            outputs.append(own_output[0].float().cpu())
            weights[:, row : row + last - first, group] = own_weights[0]
            row += last - first
        number_type = number_type_of(call, own_output)
        return cls(rows, torch.cat(outputs), weights.flatten(2), number_type, groups * queries)

    def matches_output(self, output: Tensor, sequences: slice) -> bool:
        """Returns whether an output of all rows (sequences, queries, heads, width) equals the sampled rows."""
        return self.matches_rows(output[sequences].flatten(0, 1)[self.rows].float().cpu())

    def matches_rows(self, rows: Tensor) -> bool:
        """Returns whether an output of these rows (rows, heads, width) equals the sampled rows, except those in which
        the model's own function gives NaN."""
        tolerance = torch.tensor(max(SMALLEST_TOLERANCE, 4 * torch.finfo(self.number_type).eps))
        own, known = self.output, self.output.isfinite().all(-1)
        if not known.all():
            rows, own = rows[known], own[known]
        return bool(_near(rows, own, tolerance * own.abs().amax(-1, keepdim=True)).all())

    def weights_give_output(self, inputs: Inputs) -> bool:
        """Returns whether the sampled weights times the values are the sampled outputs, in rows with weights; also if
        the weights are not known."""
        if self.weights is None:
            return True
        value = inputs.value.repeat_interleave(len(self.weights) // len(inputs.value), 0)
        output, own = self.weights.to(value) @ value, self.output.transpose(0, 1)
        largest = (self.weights.abs().to(value) @ value.abs()).amax(-1, keepdim=True)
        near = _near(output, own, max(SMALLEST_TOLERANCE, 4 * torch.finfo(self.number_type).eps) * largest)
        return bool((near | ~self.weights.any(-1, keepdim=True)).all())

    def comparison(self, mechanism: Mechanism, inputs: Inputs) -> str:
        """Returns what was compared with a mechanism and how much it may have differed, as a sentence; an empty text
        if the mechanism does not reproduce these weights and outputs, in rows that are not empty.
        """
        with torch.autocast(inputs.query.device.type, enabled=False):  # the model's autocast is its own
            attention = mechanism(inputs, rows=slice(None) if self.has_all else self.rows)
        valid, subject = attention.allowed.any(-1, keepdim=True), "outputs"
        same, tolerance = output_agreement(attention, inputs.value, self.output.transpose(0, 1), self.number_type)
        if self.weights is not None:
            own, subject = self.weights, "weights and outputs"
            # Where a query looks everywhere a little, a small difference is a large one.
            same &= _near(attention.weights, own, tolerance * own.amax(-1, keepdim=True)) | ~valid
        if not bool(same.all()):
            return ""
        if not bool(valid.any()):
            return f"None of {self._compared} has an allowed key: there are no weights to compare."
        limit = significant(100 * float(tolerance.where(valid, 0).max()), 2)
        return (
            f"The {subject} of {self._compared} were compared with the model's own, computed in "
            f"{str(self.number_type).removeprefix('torch.')}: they differ by at most {limit}% of the largest."
            + _empty_heads(valid)
        )

    @property
    def _compared(self) -> str:
        number = len(self.rows)
        if not self.has_all:
            return f"{number} of {self.count} queries"
        return f"all {number} queries" if number > 1 else "1 query"


def output_agreement(
    attention: Attention, value: Tensor, own: Tensor, number_type: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Returns in which rows (*heads, rows, 1) the output is the model's own, or nothing is allowed, and by how much
    numbers may differ, as shares of the largest.

    The model rounds each score to its type, by at most eps / 2 of its size, and then weights and outputs. The
    rounding of two scores changes the ratio of their weights by at most eps times the larger of them.
    """
    scores = attention.scores.where(attention.allowed, 0).abs().amax(-1, keepdim=True)
    tolerance = (torch.finfo(number_type).eps * (1 + scores)).clamp(SMALLEST_TOLERANCE, LARGEST_TOLERANCE)
    empty = ~attention.allowed.any(-1, keepdim=True)
    # No output is larger than such a sum, which takes as long as all else here.
    same = _near(attention.output, own, tolerance * attention.output.abs().amax(-1, keepdim=True)) | empty
    if not bool(same.all()):
        same = _near(attention.output, own, tolerance * _largest_sums(attention.weights, value)) | empty
    return same, tolerance


def compared_rows(call: Call, sequences: slice) -> list[int]:
    """Returns which rows of these sequences, concatenated, are compared: all of a short text, else as many as take a
    tenth of the time of a transformer's layer.

    A layer of width D computes 24 n D² operations for n tokens, beside its attention (Kaplan et al. 2020, table 1). The
    comparison computes the attention of a row twice, with 4 D operations for each key, and passes over the weights of
    each head in the time of about 600.
    """
    (queries, keys), (_, heads, _, width) = call.lengths, call.query.shape
    groups, full_width = sequences.stop - sequences.start, heads * width
    count, weights_of_row = groups * queries, groups * keys * heads
    affordable = SHARE_OF_FORWARD * 24 * count * full_width**2 / (groups * keys * (8 * full_width + 600 * heads))
    return sampled_rows(count, max(int(affordable), ALWAYS_COMPARED // weights_of_row))


def sampled_rows(count: int, number: int = FEWEST_ROWS) -> list[int]:
    """Returns a number of rows, at least 3, out of `count`: the first, the last and some in the middle.

    Example:
        >>> sampled_rows(100), sampled_rows(100, 7), sampled_rows(2)
        ([0, 50, 99], [0, 1, 49, 50, 51, 98, 99], [0, 1])
    """
    number = max(number, FEWEST_ROWS)
    if number >= count:
        return [*range(count)]
    outer = number // 3
    middle = number - 2 * outer
    first = (count - middle + 1) // 2
    return [*range(outer), *range(first, first + middle), *range(count - outer, count)]


def _runs(rows: Sequence[int], queries: int) -> list[tuple[int, int, int]]:
    """Returns rows of concatenated sequences as runs of neighbors: the sequence, its first row and the one after its
    last."""
    runs: list[tuple[int, int, int]] = []
    for row in rows:
        group, position = divmod(row, queries)
        if runs and runs[-1][0] == group and runs[-1][2] == position:
            runs[-1] = (group, runs[-1][1], position + 1)
        else:
            runs.append((group, position, position + 1))
    return runs


def _empty_heads(valid: Tensor) -> str:
    """Returns a sentence about the heads (heads, rows, 1) in which queries have no allowed key, or an empty text."""
    if bool(valid.all()):
        return ""
    empty = ~valid[..., 0]
    heads = empty.any(-1).nonzero().flatten().tolist()
    names = "all heads" if len(heads) == len(valid) else f"head {', '.join(map(str, heads))}"
    number = int(empty.any(0).sum())
    return f" {number} of them {'has' if number == 1 else 'have'} no allowed key in {names}, and no weights."


def number_type_of(call: Call, output: Tensor | None) -> torch.dtype:
    """Returns the coarser type of queries and output: with autocast they differ."""
    types = {call.query.dtype, call.query.dtype if output is None else output.dtype}
    return max(types, key=lambda one: torch.finfo(one).eps)


def _largest_sums(weights: Tensor, value: Tensor) -> Tensor:
    """Returns the largest sum of what is added up to an output, without signs, (heads, rows, 1): it is rounded."""
    groups = weights.unflatten(-3, (value.shape[-3], -1)).flatten(-3, -2)
    return (groups @ value.abs().to(weights)).amax(-1).view(*weights.shape[:-1], 1)


def _near(one: Tensor, other: Tensor, difference: Tensor) -> Tensor:
    """Returns in which rows (…, rows, 1) no number differs by more."""
    # Several times as fast as to compare all numbers, and without further memory.
    return (one - other).abs_().sub_(difference).amax(-1, keepdim=True) <= 0
