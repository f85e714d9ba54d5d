"""What Masks shows."""

from attnviz.page.page_view import PageView, difference_panel
from attnviz.state.masks import SIDES, MasksState
from attnviz.views.mask_pair import MaskPair
from attnviz.views.selected_maps import map_panel


def masks(state: MasksState) -> PageView:
    """Returns the maps under A and B, their difference, and its quantities. Raises ValueError if the mechanism of the
    layer is locked, or a map cannot be computed."""
    selection, row = state.selection, state.pinned
    if selection.layer.locked:
        raise ValueError(selection.layer.locked_reason)
    pair = MaskPair(selection, state.mechanisms)
    before, after = (
        map_panel(head_map, f"{side}: {mechanism.mask}", row)
        for side, head_map, mechanism in zip(SIDES, pair.maps, state.mechanisms, strict=True)
    )
    return PageView((before, after, difference_panel(before, after, "B − A")), pair.quantities(row))
