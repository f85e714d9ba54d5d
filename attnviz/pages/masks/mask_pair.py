"""The selected head under two mechanisms, A and B, and the difference of its maps."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, UInt8

from attnviz.analysis.difference import outcome_counts, outcomes
from attnviz.analysis.head_maps import HeadChoice
from attnviz.base.cached_property import cached_property
from attnviz.base.formatting import visible
from attnviz.inputs import Inputs
from attnviz.lessons.checks import Quantities, rows_quantities
from attnviz.mechanism import Mechanism
from attnviz.page.color_range import largest_weight
from attnviz.page.selected_maps import HeadMap, selected_map
from attnviz.page.selection import Selection
from attnviz.pages.masks.state import SIDES


@dataclass(frozen=True, eq=False)
class MaskPair:
    """The selected head under mechanisms A and B, and what happens to each cell of its maps."""

    selection: Selection
    mechanisms: tuple[Mechanism, Mechanism]

    @property
    def inputs(self) -> Inputs:
        return self.selection.inputs.vectors

    @property
    def head(self) -> HeadChoice:
        return self.selection.head

    @cached_property
    def maps(self) -> tuple[HeadMap, HeadMap]:
        """The maps under A and B. Raises ValueError if one cannot be computed."""
        before, after = (selected_map(self.selection.with_mechanism(mechanism)) for mechanism in self.mechanisms)
        return before, after

    @cached_property
    def outcomes(self) -> UInt8[np.ndarray, "queries keys"]:
        """The outcome of each cell, as an index in difference.OUTCOMES."""
        before, after = self.maps
        return outcomes(before.weights, after.weights).numpy()

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

    def row(self, row: int) -> tuple[Float[np.ndarray, " keys"], Float[np.ndarray, " keys"]]:
        """Returns the weights of a row under A and B."""
        before, after = self.maps
        return before.weights[row], after.weights[row]

    def query_name(self, row: int) -> str:
        """Returns the token of a row."""
        return visible(self.maps[0].query_tokens[row])

    @property
    def largest(self) -> float:
        """The upper end of the color scale of both maps."""
        return largest_weight([head_map.weights for head_map in self.maps])
