"""Where the colors of a map end."""

from collections.abc import Sequence
from enum import StrEnum

import numpy as np


class ColorRange(StrEnum):
    """Which weight has the last color of the scale: what the menu and the link say."""

    SHOWN = "Largest weight shown"
    HEAD = "Largest weight of this head"
    ONE = "0 to 1"

    def end(self, maps: Sequence[np.ndarray], others: Sequence[np.ndarray] = ()) -> float:
        """Returns the weight of the last color for these maps, which may share it with others that are shown."""
        if self is ColorRange.ONE:
            return 1.0
        return largest_weight(maps if self is ColorRange.HEAD else [*maps, *others])


def largest_weight(maps: Sequence[np.ndarray]) -> float:
    """Returns the largest size of a weight in these maps, or 1.0 if there is none; NaN is not allowed and left out."""
    return max([float(np.nanmax(np.abs(one))) for one in maps if not np.isnan(one).all()], default=0) or 1.0
