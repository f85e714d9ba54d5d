"""The range of a color scale."""

from collections.abc import Sequence
from enum import StrEnum

import numpy as np

from attnviz.base.language import N_


class ColorRange(StrEnum):
    """The upper end of the color scale, as in the menu and the link."""

    SHOWN = N_("Largest weight shown")
    HEAD = N_("Largest weight of this head")
    ONE = N_("0 to 1")

    def end(self, maps: Sequence[np.ndarray], others: Sequence[np.ndarray] = ()) -> float:
        """Returns the upper end of the scale for these maps, which may share it with others."""
        if self is ColorRange.ONE:
            return 1.0
        return largest_weight(maps if self is ColorRange.HEAD else [*maps, *others])


def largest_weight(maps: Sequence[np.ndarray]) -> float:
    """Returns the largest absolute weight in these maps, ignoring NaN, or 1.0 if there is none."""
    return max([float(np.nanmax(np.abs(one))) for one in maps if not np.isnan(one).all()], default=0) or 1.0
