"""One head under two mechanisms, A and B: both maps, and what changes from one to the other."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

from attnviz.analysis.difference import difference, kinds
from attnviz.analysis.head_maps import HeadChoice, Special
from attnviz.inputs import Inputs
from attnviz.layer import Layer
from attnviz.mechanism import Mechanism
from attnviz.sources import Source
from attnviz.ui.color_range import largest_weight
from attnviz.ui.view import head_weights

SIDES = ("A", "B")


@dataclass(frozen=True, eq=False)
class Comparison:
    """The maps of one head, or of several as one, under mechanisms A and B; NaN where not allowed."""

    inputs: Inputs
    head: HeadChoice
    mechanisms: tuple[Mechanism, Mechanism]
    maps: tuple[Float[np.ndarray, "queries keys"], Float[np.ndarray, "queries keys"]]
    change: Float[np.ndarray, "queries keys"]  # B − A
    kinds: Int[np.ndarray, "queries keys"]  # indices in difference.KINDS

    @property
    def mask_head(self) -> int:
        """The head whose mask is shown; the first where several heads are shown as one."""
        return self.head if isinstance(self.head, int) else 0

    @property
    def allowed(self) -> tuple[Bool[np.ndarray, "queries keys"], Bool[np.ndarray, "queries keys"]]:
        before, after = self.maps
        return ~np.isnan(before), ~np.isnan(after)

    @property
    def largest(self) -> float:
        """The weight at the end of the color scale of both maps."""
        return largest_weight(self.maps)


def compare(
    source: Source, layers: Sequence[Layer], layer: int, head: HeadChoice, mechanisms: tuple[Mechanism, Mechanism]
) -> Comparison:
    """Returns the maps of one head under both mechanisms. Raises ValueError if one of them cannot be computed."""
    before, after = (head_weights(source, layers, layer, each, head, Special.SHOWN) for each in mechanisms)
    tensors = torch.from_numpy(before), torch.from_numpy(after)
    return Comparison(
        layers[layer].inputs, head, mechanisms, (before, after), difference(*tensors).numpy(), kinds(*tensors).numpy()
    )
