"""Verification that a captured mechanism reproduces the model's attention, on a few rows of every layer."""

from dataclasses import dataclass

import torch
from torch import Tensor

from attnviz.formatting import significant
from attnviz.inputs import Inputs
from attnviz.mechanism import Mechanism
from attnviz.tracing.call import Call
from attnviz.tracing.multi_head_attention import MultiHeadCall

ROWS = 3
LEAST = 1e-4  # share of the largest by which numbers may always differ


@dataclass(frozen=True, eq=False)
class SampledRows:
    """Some rows of an example's output and weights, by the model's own function."""

    rows: list[int]
    output: Tensor  # (rows, heads, width)
    weights: Tensor | None  # (rows, heads, keys), or None where only the output is known
    number_type: torch.dtype  # in which the model computes

    @classmethod
    def from_call(cls, call: Call, sequences: slice, output: Tensor | None = None) -> "SampledRows":
        """Samples the first row, the last and some between, by the model's own function; outputs instead from an
        output (sequences, queries, heads, width) of all rows, if it is given."""
        rows, places = _sampled_places(call, sequences)
        groups, keys = sequences.stop - sequences.start, call.lengths[1]
        outputs, weights = [], torch.zeros(len(rows), call.query.shape[1], groups, keys)
        for i, (sequence, row) in enumerate(places):
            own, own_weights = call.rows(row, row + 1, slice(sequence, sequence + 1))
            outputs.append((own[0, 0] if output is None else output[sequence, row]).float().cpu())
            weights[i, :, sequence - sequences.start] = own_weights[0, :, 0]
        return cls(rows, torch.stack(outputs), weights.flatten(2), _number_type(call, output))

    @classmethod
    def from_output(cls, call: Call, sequences: slice, output: Tensor) -> "SampledRows":
        """Samples the same rows of an output (sequences, queries, heads, width)."""
        rows, places = _sampled_places(call, sequences)
        outputs = torch.stack([output[place] for place in places]).float().cpu()
        return cls(rows, outputs, None, _number_type(call, output))

    @classmethod
    def from_multi_head(cls, call: Call, own: MultiHeadCall) -> "SampledRows":
        """Samples the same rows by torch's multi-head attention, of all sequences of a call."""
        (groups, heads, *_), (_, keys) = call.query.shape, call.lengths
        rows, places = _sampled_places(call, slice(0, groups))
        outputs, weights = [], torch.zeros(len(rows), heads, groups, keys)
        for i, (sequence, row) in enumerate(places):
            output, own_weights = own.rows(sequence, row)
            outputs.append(output[0, 0].float().cpu().nan_to_num())  # rows without keys
            weights[i, :, sequence] = own_weights[0, :, 0].nan_to_num()
        return cls(rows, torch.stack(outputs), weights.flatten(2), _number_type(call, output))

    def matches_output(self, output: Tensor, sequences: slice) -> bool:
        """Returns whether an output of all rows (sequences, queries, heads, width) equals the sampled rows."""
        return self.matches_rows(output[sequences].flatten(0, 1)[self.rows].float().cpu())

    def matches_rows(self, rows: Tensor) -> bool:
        """Returns whether an output of these rows (rows, heads, width) equals the sampled rows."""
        tolerance = torch.tensor(max(LEAST, 4 * torch.finfo(self.number_type).eps))
        return _near(rows, self.output, self._size, tolerance)

    def comparison(self, mechanism: Mechanism, inputs: Inputs) -> str:
        """Returns what was compared with a mechanism and how much it may have differed, as a sentence; an empty text
        if the mechanism does not reproduce these weights and outputs, in rows that are not empty.

        The model rounds each score to its type, by at most eps / 2 of its size, and then weights and outputs. The
        rounding of two scores changes the ratio of their weights by at most eps times the larger of them.
        """
        with torch.autocast(inputs.query.device.type, enabled=False):  # what the model computes in is its own affair
            attention = mechanism(inputs, rows=self.rows)
        valid, same, subject = attention.allowed.any(-1), True, "outputs"
        scores = attention.scores.where(attention.allowed, 0).abs().amax(-1, keepdim=True)[valid]
        tolerance = (torch.finfo(self.number_type).eps * (1 + scores)).clamp(min=LEAST)
        if self.weights is not None:
            own, subject = self.weights.transpose(0, 1)[valid], "weights and outputs"
            # Where a query looks everywhere a little, a small difference is a large one.
            same = _near(attention.weights[valid], own, own.amax(-1, keepdim=True), tolerance)
        if not same or not _near(attention.output[valid], self.output.transpose(0, 1)[valid], self._size, tolerance):
            return ""
        limit = significant(100 * float(tolerance.max()), 2) if len(tolerance) else "0"
        return (
            f"The {subject} of {len(self.rows)} {'query' if len(self.rows) == 1 else 'queries'} were compared with the "
            f"model's own, computed in {str(self.number_type).removeprefix('torch.')}: they differ by at most {limit}% "
            "of the largest."
        )

    @property
    def _size(self) -> Tensor:
        return self.output.abs().max()


def sampled_rows(count: int) -> list[int]:
    """Returns which of so many rows are compared: the first, the last and some between."""
    return sorted({round(i * (count - 1) / (ROWS - 1)) for i in range(ROWS)})


def _sampled_places(call: Call, sequences: slice) -> tuple[list[int], list[tuple[int, int]]]:
    """Returns the sampled rows of all sequences together, and the sequence and row that each of them is."""
    queries, count = call.lengths[0], (sequences.stop - sequences.start) * call.lengths[0]
    rows = sampled_rows(count)
    return rows, [(sequences.start + row // queries, row % queries) for row in rows]


def _number_type(call: Call, output: Tensor | None) -> torch.dtype:
    """Returns the coarser type of queries and output: with autocast they differ."""
    types = {call.query.dtype, call.query.dtype if output is None else output.dtype}
    return max(types, key=lambda one: torch.finfo(one).eps)


def _near(one: Tensor, other: Tensor, size: Tensor, tolerance: Tensor) -> bool:
    return bool(((one - other).abs() <= tolerance * size).all())
