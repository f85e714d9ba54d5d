"""Masks: what do two masks do to the same scores, and where do they disagree?"""

from collections.abc import Callable, Mapping
from functools import partial

import streamlit as st

from attnviz.language import _
from attnviz.server.page_runs import PageEnd
from attnviz.state.masks import SIDES, MasksState
from attnviz.ui import cache, mechanism_controls, pinned_query, quantities, source_picker, viewport_sliders
from attnviz.ui.classroom import class_questions
from attnviz.ui.field_widgets import draw, draw_tabs
from attnviz.ui.heading import page_heading
from attnviz.ui.masks import (
    comparison_maps,
    conventions,
    cost,
    empty_rows,
    export,
    gallery,
    mask_editor,
    mass_kept,
    mass_shift,
    receptive_field,
)
from attnviz.views.mask_pair import MaskPair

page_heading("masks")

selection, places = source_picker.choose_selection()
if places.show_locked(
    selection.layer, _("A mask would only hide some of them. Upload queries and keys to compare masks.")
):
    raise PageEnd
with st.sidebar:
    shared = mechanism_controls.change_parts(selection.mechanism, MasksState.score, MasksState.normalizer)
selection = viewport_sliders.choose(selection)

mechanisms = []
for side, column in zip(SIDES, st.columns(2, gap="medium"), strict=True):
    with column:
        mechanisms.append(mask_editor.choose_side(side, shared))


def show_whole(pair: MaskPair) -> Mapping[str, Callable[[], None]]:
    """Draws the maps of a text whose cells are all on the screen; returns the tabs that need them."""
    with st.container(horizontal=True, vertical_alignment="center", key="summary"):
        comparison_maps.show_legend(pair)
        arrangement = draw(MasksState.maps, widget=st.segmented_control, label_visibility="collapsed")
    maps = st.container()
    with st.container(width=320):
        row = pinned_query.menu(pair.selection)
    quantities.publish(partial(pair.quantities, row), "" if row is None else pair.query_name(row))
    class_questions.offer_question(_("Which cells does B lose?"), partial(class_questions.lost_cells, pair))
    with maps:
        comparison_maps.show(pair, arrangement, row)
    return {
        "Where it went": partial(mass_shift.show, pair, row),
        "Empty rows": partial(empty_rows.show, pair),
        "Stacked layers": partial(receptive_field.show, pair),
    }


pair = MaskPair(selection, (mechanisms[0], mechanisms[1]))
subject = selection.source, selection.index, selection.head
keeps = source_picker.is_small(selection)
shown = cache.or_last_good("masks", subject, pair.with_maps, lambda: None, places.notes, keeps=keeps)
shows: Mapping[str, Callable[[], None]] = {}
if selection.is_long:  # whose tabs need no maps
    if shown:
        comparison_maps.show(shown)
    shown = pair
elif shown:
    shows = show_whole(shown)
if shown:
    shows = {
        **shows,
        "Mass kept": partial(mass_kept.show, shown),
        "Cost": partial(cost.show, shown),
        "Conventions": conventions.show,
        "Code": partial(export.show, shown),
        "Gallery": gallery.show,
    }
    with st.container(key="views"):
        draw_tabs(MasksState.look, shows, shown)
