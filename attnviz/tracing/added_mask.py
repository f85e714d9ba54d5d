"""Masks that a model adds to its scores, which a softmax obeys only where their numbers are small enough.

A model that adds −10,000 to the scores of some keys forbids them only where its other scores are much larger. A query
all of whose keys get that number attends as if there were no mask.
"""

import torch
from torch import Tensor

from attnviz.base.cached_property import cached_property
from attnviz.base.formatting import quoted, significant
from attnviz.inputs import Inputs
from attnviz.mechanism import BLOCK, Mechanism
from attnviz.trace.opaque_parts import CellTable
from attnviz.tracing.call import MASKED

UNDERFLOW = 104  # exp(−104) is 0 in float32
SMALLEST_LEAK = 0.005  # a weight that is worth a sentence


class AddedMask:
    """What a model adds to the scores of some sequences, as cells (groups or 1, heads or 1, queries or 1, keys).

    Cells of booleans say which keys are allowed. `meant` are the cells that are meant to be forbidden by a finite
    number: −∞ forbids by itself.
    """

    def __init__(self, cells: Tensor, queries: int) -> None:
        self.cells, self.queries = cells, queries  # of each sequence
        self.is_added = cells.dtype != torch.bool
        self.allowed = cells > MASKED if self.is_added else cells
        self.meant = ~self.allowed & ~cells.isneginf() if self.is_added else torch.zeros_like(cells)

    def softened(self, rows: list[int], groups: int) -> "AddedMask":
        """Returns this mask with only −∞ forbidden in these rows of the concatenated sequences."""
        soft = torch.zeros(groups * self.queries, dtype=torch.bool)
        soft[rows] = True
        other = AddedMask(self.cells, self.queries)
        other.allowed = self.allowed | (self.meant & soft.view(groups, 1, self.queries, 1))
        return other

    def doubtful_rows(self, inputs: Inputs, scale: float, added: float) -> list[int]:
        """Returns the rows in which keys that are meant to be forbidden may have weight; in all others, none has.

        The size of a score is at most the length of the query times that of the longest key times `scale`, and that of
        the other numbers that are added to it at most `added`.
        """
        if self._margin is None:
            return []
        longest = inputs.key.norm(dim=-1).amax(-1).repeat_interleave(inputs.heads // len(inputs.key))
        scores = inputs.query.norm(dim=-1) * longest[:, None] * abs(scale)
        scores = scores.unflatten(1, (-1, self.queries)).transpose(0, 1)  # (groups, heads, queries)
        doubtful = self._margin < 2 * (scores + added) + UNDERFLOW
        return doubtful.any(1).flatten().nonzero().flatten().tolist()

    @cached_property
    def _margin(self) -> Tensor | None:
        """How much larger the largest number of a query's allowed keys is than that of its keys that are meant to be
        forbidden: −∞ if no key is allowed, ∞ if none is meant to be forbidden; None if that holds for all queries."""
        if not bool(self.meant.any()):
            return None
        largest, largest_meant = (self.cells.where(cells, -torch.inf).amax(-1) for cells in (self.allowed, self.meant))
        return torch.where(largest_meant.isneginf(), torch.inf, largest - largest_meant)

    def leaks(self, soft: Mechanism, inputs: Inputs, rows: list[int]) -> tuple[list[int], str]:
        """Returns those of some rows in which keys that are meant to be forbidden have weight in a mechanism that
        forbids none of them, and what a person should know about it, in sentences."""
        h, k, zero = torch.arange(inputs.heads)[:, None, None], torch.arange(inputs.keys), torch.tensor(0)
        leaking, unmasked, largest, leak = [], [], 0.0, ""
        for first in range(0, len(rows), BLOCK):
            block = torch.tensor(rows[first : first + BLOCK])
            meant, allowed = (
                CellTable(cells, self.queries, self.cells.shape[-1])(zero, h, block[:, None], k)
                for cells in (self.meant, self.allowed)
            )
            weight = soft(inputs, rows=block.tolist()).weights.where(meant, 0).sum(-1)  # (heads, rows)
            leaking += block[(weight > 0).any(0)].tolist()
            partly = allowed.any(-1).expand_as(weight)
            unmasked += block[~partly.any(0)].tolist()
            weight = weight.where(partly, 0)
            if float(weight.max()) > max(largest, SMALLEST_LEAK):
                head, row = divmod(int(weight.argmax()), len(block))
                largest, token = float(weight.max()), quoted(inputs.query_tokens[block[row]])
                leak = f"{token} gives {significant(largest, 2)} to keys that its mask meant to forbid (head {head})."
        if unmasked:
            token = quoted(inputs.query_tokens[unmasked[0]])
            count = f" ({len(unmasked)} queries are so)" if len(unmasked) > 1 else ""
            leak += f" {token} attends as if it had no mask{count}: what is added to all of its keys changes no weight."
        return leaking, leak.strip()
