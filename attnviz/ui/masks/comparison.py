"""The selected head under two mechanisms, A and B, and the difference of its maps."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, UInt8

from attnviz.analysis.difference import difference, outcome_counts, outcomes
from attnviz.analysis.head_maps import HeadChoice
from attnviz.classroom.question import Question, cells_question
from attnviz.formatting import visible
from attnviz.inputs import Inputs
from attnviz.language import _
from attnviz.lessons.checks import Quantities, rows_quantities
from attnviz.mechanism import Mechanism
from attnviz.ui.color_range import largest_weight
from attnviz.ui.head_map import HeadMap, selected_map
from attnviz.ui.selection import Selection

SIDES = ("A", "B")


@dataclass(frozen=True, eq=False)
class MaskPair:
    """The selected head, and the mechanisms A and B."""

    selection: Selection
    mechanisms: tuple[Mechanism, Mechanism]

    @property
    def inputs(self) -> Inputs:
        return self.selection.layer.inputs

    @property
    def head(self) -> HeadChoice:
        return self.selection.head


@dataclass(frozen=True, eq=False)
class Comparison(MaskPair):
    """The maps of the selected head under mechanisms A and B, and their difference."""

    maps: tuple[HeadMap, HeadMap]
    change: Float[np.ndarray, "queries keys"]  # B − A
    outcomes: UInt8[np.ndarray, "queries keys"]  # indices in difference.OUTCOMES

    @property
    def allowed(self) -> tuple[Bool[np.ndarray, "queries keys"], Bool[np.ndarray, "queries keys"]]:
        before, after = self.maps
        return ~np.isnan(before.weights), ~np.isnan(after.weights)

    def quantities(self, row: int | None) -> Quantities:
        """Returns the cells of each outcome and under each mask, and the quantities of a row under both masks."""
        counts = outcome_counts(torch.from_numpy(self.outcomes))
        cells = {f"cells {kind}": float(count) for kind, count in counts.items()}
        cells |= {f"cells under {side}": float(one.sum()) for side, one in zip(SIDES, self.allowed, strict=True)}
        if row is None:
            return cells
        under = {f" under {side}": one.weights[row] for side, one in zip(SIDES, self.maps, strict=True)}
        return cells | rows_quantities(self.maps[0].key_tokens, under)

    def query_name(self, row: int) -> str:
        """Returns the token of a row."""
        return visible(self.maps[0].query_tokens[row])

    def question(self) -> Question:
        """Returns the question which cells B loses. Raises ValueError if it loses none, or if there are too many."""
        before, after = self.allowed
        ask = _("Which cells does B lose that A has?")
        return cells_question(ask, self.maps[0].query_tokens, self.maps[0].key_tokens, before & ~after)

    @property
    def largest(self) -> float:
        """The upper end of the color scale of both maps."""
        return largest_weight([head_map.weights for head_map in self.maps])


def compare(selection: Selection, mechanisms: tuple[Mechanism, Mechanism]) -> Comparison:
    """Returns the selected head under both mechanisms. Raises ValueError if that cannot be computed."""
    before, after = (selected_map(selection.with_mechanism(mechanism)) for mechanism in mechanisms)
    weights = torch.from_numpy(before.weights), torch.from_numpy(after.weights)
    return Comparison(selection, mechanisms, (before, after), difference(*weights).numpy(), outcomes(*weights).numpy())
