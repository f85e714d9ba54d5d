"""The tabs of Masks, below the two masks."""

from collections.abc import Callable, Iterable, Iterator

from attnviz.base.language import _
from attnviz.page.blocks import Block, Columns, Control, OptionMenu, Tabs, Unavailable, available
from attnviz.pages.masks.convention_blocks import convention_blocks
from attnviz.pages.masks.cost_blocks import cost_blocks
from attnviz.pages.masks.empty_row_blocks import empty_row_blocks
from attnviz.pages.masks.gallery_blocks import gallery_blocks
from attnviz.pages.masks.mask_pair import MaskPair
from attnviz.pages.masks.mass_kept_blocks import mass_kept_blocks
from attnviz.pages.masks.script_blocks import script_blocks
from attnviz.pages.masks.stacked_layers import stacked_layer_blocks
from attnviz.pages.masks.state import (
    CONVENTIONS,
    COST,
    EMPTY_ROWS,
    FOR_ENGINEERS,
    GALLERY,
    MASS_KEPT,
    SCRIPT,
    STACKED,
    TWO_MASKS,
    MasksState,
)
from attnviz.pages.masks.two_masks import two_masks

PARTS: dict[str, Callable[[MasksState, MaskPair], Iterable[Block]]] = {
    MASS_KEPT: mass_kept_blocks,
    COST: cost_blocks,
    SCRIPT: script_blocks,
    CONVENTIONS: convention_blocks,
    STACKED: stacked_layer_blocks,
    EMPTY_ROWS: empty_row_blocks,
}


def masks(state: MasksState) -> Iterator[Block]:
    """Yields the two masks, and the open tab; of a layer whose mechanism is locked, why none can be changed."""
    layer = state.selection.layer
    if layer.locked:
        more = _("A mask would only hide some of them. Upload queries and keys to compare masks.")
        yield Unavailable(f"{layer.locked_reason} {more}")
        return
    sides = MasksState.mask_a, MasksState.mask_b
    yield Columns([(1 / len(sides), [Control(field, state, stays=True)]) for field in sides])
    pair = MaskPair(state.selection, state.mechanisms)
    tabs: dict[str, Callable[[MasksState, MaskPair], Iterable[Block]]] = {
        TWO_MASKS: two_masks,
        GALLERY: gallery_blocks,
        FOR_ENGINEERS: _engineers,
    }
    yield Tabs(MasksState.look, state, [*tabs[state.look](state, pair)])


def _engineers(state: MasksState, pair: MaskPair) -> Iterator[Block]:
    yield OptionMenu(MasksState.part, state)
    yield from available(PARTS[state.part](state, pair))
