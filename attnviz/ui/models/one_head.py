"""One head of a layer, or several of them as one, as a map."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import streamlit as st
from jaxtyping import Float

from attnviz.analysis.head_maps import Aggregate, HeadChoice, Special, head_map
from attnviz.analysis.work import check_heads
from attnviz.figures import Chart
from attnviz.figures.chart_spec import HeatmapSpec
from attnviz.figures.sentences import GIVES, GIVES_AT_MOST, GIVES_ON_AVERAGE
from attnviz.inputs import Inputs
from attnviz.layer import Layer
from attnviz.ui.models.model_picker import Example
from attnviz.ui.models.viewport import ALL, OnScreen, Part, on_screen
from attnviz.ui.view import title

SAYS: dict[HeadChoice, str] = {Aggregate.MEAN: GIVES_ON_AVERAGE, Aggregate.MAXIMUM: GIVES_AT_MOST}


@dataclass(frozen=True, eq=False)
class OneHead:
    """A head on an example. Making it computes it, and raises ValueError, in words, where that would take too much."""

    example: Example
    layers: Sequence[Layer]
    layer: int
    head: HeadChoice
    special: Special
    part: Part = ALL
    screen: OnScreen = field(init=False)

    def __post_init__(self) -> None:
        mechanism = self.layers[self.layer].mechanism
        check_heads([self.layers[self.layer]], [mechanism])
        of = partial(head_map, self.inputs, mechanism, self.head, self.special)
        asked = self.example, self.layer, mechanism, self.head
        object.__setattr__(self, "screen", on_screen(of, self.inputs, self.special, self.part, *asked))

    @property
    def inputs(self) -> Inputs:
        return self.layers[self.layer].inputs

    @property
    def weights(self) -> Float[np.ndarray, "rows columns"]:
        return self.screen.weights

    @property
    def title(self) -> str:
        return title(self.layers[self.layer], self.head)

    def figure(self, end: float, link: str = "") -> Chart[HeatmapSpec]:
        """The map, with colors up to `end`; those of one `link` mark the same cell."""
        return self.screen.figure(largest=end, says=SAYS.get(self.head, GIVES), link=link)


def open_head(layers: Sequence[Layer], layer: int, head: int) -> None:
    """Makes this the head that the menus at the left show."""
    st.session_state["layer"] = layers[layer].name
    st.session_state["head"] = f"Head {head}"
