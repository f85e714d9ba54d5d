"""The fields of pages that also show maps of long texts."""

from typing import Any

from attnviz.base.language import N_
from attnviz.figures.downsampled_map import CELL_COLORS, CellColors, Quantity, Scale
from attnviz.page.fields import ChoiceField, RangeField, TextField
from attnviz.page.head_state import HeadState
from attnviz.page.viewport import Viewport, is_long


def has_long_map(state: Any) -> bool:
    return is_long(state.inputs)


class LongMapState(HeadState):
    """A head, and of a long map what its colors show and which part is in view."""

    quantity = ChoiceField(
        N_("Quantity"),
        tuple(Quantity),
        lambda _state: CELL_COLORS.quantity,
        when=has_long_map,
        place="more",
        about=N_(
            "A cell stands for several queries and keys. **Mass**: how much of its queries' attention its "
            "keys get, so that a row of cells adds up to 1. **Largest weight**: of a query and a key. "
            "**Mean weight**: of the pairs that the mask allows."
        ),
    )
    scale = ChoiceField(
        N_("Color scale"),
        tuple(Scale),
        lambda _state: CELL_COLORS.scale,
        when=has_long_map,
        place="more",
        about=N_("A square root or a logarithm shows small numbers beside large ones."),
    )
    find = TextField(
        N_("Find in the text"),
        when=has_long_map,
        place="side",
        about=N_("Goes to the tokens with which the word or phrase begins, and pins the query there."),
    )
    part_of_queries = RangeField(
        N_("Queries"), lambda state: (0, state.inputs.queries - 1), when=has_long_map, place="side"
    )
    part_of_keys = RangeField(N_("Keys"), lambda state: (0, state.inputs.keys - 1), when=has_long_map, place="side")

    @property
    def cell_colors(self) -> CellColors:
        """What the colors of a long map show."""
        return CellColors(self.quantity, self.scale)

    @property
    def viewport(self) -> Viewport:
        """The part of the map in view."""
        queries, keys = ((first, last + 1) for first, last in (self.part_of_queries, self.part_of_keys))
        return Viewport(queries, keys).within(self.inputs)
