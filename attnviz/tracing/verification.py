"""Verification that a captured mechanism reproduces the model's attention, on a few rows of every layer."""

from dataclasses import dataclass

import torch
from torch import Tensor

from attnviz.inputs import Inputs
from attnviz.mechanism import Mechanism
from attnviz.tracing.call import Call

ROWS = 3
LEAST = 1e-4  # share of the largest by which numbers may always differ


@dataclass(frozen=True, eq=False)
class SampledRows:
    """Some rows of an example's output and weights, by the model's own function."""

    rows: list[int]
    output: Tensor  # (rows, heads, width)
    weights: Tensor | None  # (rows, heads, keys), or None where only the output is known
    eps: float  # of the type in which the model computes

    @classmethod
    def from_call(cls, call: Call, sequences: slice, output: Tensor | None = None) -> "SampledRows":
        """Samples the first row, the last and some between; from an output of all rows if no function is known."""
        queries, keys = call.lengths
        groups = sequences.stop - sequences.start
        rows = sorted({round(i * (groups * queries - 1) / (ROWS - 1)) for i in range(ROWS)})
        places = [(sequences.start + row // queries, row % queries) for row in rows]
        eps = torch.finfo(call.query.dtype).eps
        if output is not None:
            return cls(rows, torch.stack([output[place] for place in places]).float().cpu(), None, eps)
        outputs, weights = [], torch.zeros(len(rows), call.query.shape[1], groups, keys)
        for i, (sequence, row) in enumerate(places):
            own, own_weights = call.rows(row, row + 1, slice(sequence, sequence + 1))
            outputs.append(own[0, 0].float().cpu())
            weights[i, :, sequence - sequences.start] = own_weights[0, :, 0]
        return cls(rows, torch.stack(outputs), weights.flatten(2), eps)

    def matches_output(self, output: Tensor, sequences: slice) -> bool:
        """Returns whether an output of all rows (sequences, queries, heads, width) equals the sampled rows."""
        tolerance = torch.tensor(max(LEAST, 4 * self.eps))
        return _near(output[sequences].flatten(0, 1)[self.rows].float().cpu(), self.output, self._size, tolerance)

    def matches(self, mechanism: Mechanism, inputs: Inputs) -> bool:
        """Returns whether a mechanism reproduces these weights and outputs, in rows that are not empty.

        The model rounds each score to its type, by at most eps / 2 of its size, and then weights and outputs. The
        rounding of two scores changes the ratio of their weights by at most eps times the larger of them.
        """
        attention = mechanism(inputs, rows=self.rows)
        valid, same = attention.allowed.any(-1), True
        scores = attention.scores.where(attention.allowed, 0).abs().amax(-1, keepdim=True)[valid]
        tolerance = (self.eps * (1 + scores)).clamp(min=LEAST)
        if self.weights is not None:
            own = self.weights.transpose(0, 1)[valid]
            # Where a query looks everywhere a little, a small difference is a large one.
            same = _near(attention.weights[valid], own, own.amax(-1, keepdim=True), tolerance)
        return same and _near(attention.output[valid], self.output.transpose(0, 1)[valid], self._size, tolerance)

    @property
    def _size(self) -> Tensor:
        return self.output.abs().max()


def _near(one: Tensor, other: Tensor, size: Tensor, tolerance: Tensor) -> bool:
    return bool(((one - other).abs() <= tolerance * size).all())
