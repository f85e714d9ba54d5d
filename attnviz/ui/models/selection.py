"""What is looked at on every tab: an example through a model, and one layer and head of it."""

from dataclasses import dataclass

from attnviz.analysis.head_maps import HeadChoice, Special
from attnviz.layer import Layer, Trace
from attnviz.models.model import Model
from attnviz.ui.color_range import ColorRange
from attnviz.ui.models.model_picker import Example
from attnviz.ui.models.viewport import ALL, Part


@dataclass(frozen=True, eq=False)
class LookedAt:
    """The layers of an example, and which one and which head is chosen."""

    example: Example
    model: Model
    layers: Trace
    layer: int
    head: HeadChoice
    special: Special
    colors: ColorRange
    part: Part = ALL  # of a map of the chosen layer

    @property
    def shown(self) -> Layer:
        return self.layers[self.layer]
