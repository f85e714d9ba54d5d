"""Masks: what do two masks do to the same scores, and where do they disagree?"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import streamlit as st

from attnviz.language import N_, _
from attnviz.ui import cache, mechanism_controls, pinned_query, quantities, source_picker, viewport
from attnviz.ui.cell_colors import choose_cell_colors
from attnviz.ui.classroom import questions
from attnviz.ui.heading import heading
from attnviz.ui.markdown import plain
from attnviz.ui.masks import (
    charts,
    conventions,
    cost,
    empty_rows,
    export,
    gallery,
    long_charts,
    mask_editor,
    mass_kept,
    mass_shift,
    receptive_field,
)
from attnviz.ui.masks.arrangement import choose_arrangement
from attnviz.ui.masks.comparison import SIDES, Comparison, MaskPair, compare
from attnviz.ui.menus import tab_names
from attnviz.ui.page_runs import PageEnd

heading(_("Masks"), _("What do two masks do to the same scores, and where do they disagree?"))

selection, places = source_picker.choose_selection(long=True)
with st.sidebar:
    shared = (
        selection.mechanism
        if selection.layer.locked
        else mechanism_controls.choose_score_and_normalizer(selection.mechanism)
    )
selection = replace(
    selection, viewport=viewport.choose_viewport(selection.layer.inputs),
    cell_colors=choose_cell_colors(selection.layer.inputs),
)  # fmt: skip
if places.show_locked(
    selection.layer, _("A mask would only hide some of them. Bring queries and keys to compare masks.")
):
    raise PageEnd

mechanisms = []
for side, column in zip(SIDES, st.columns(2, gap="medium"), strict=True):
    with column:
        mechanisms.append(mask_editor.choose_side(side, shared))


def show_whole(pair: MaskPair) -> Mapping[str, Callable[[], None]]:
    """Draws the maps of a text whose cells are all on the screen; returns the tabs below them."""
    summary = st.container(horizontal=True, vertical_alignment="center", key="summary")
    subject = selection.source, selection.index, selection.head
    comparison: Comparison | None = cache.or_last_good(
        "comparison", subject, lambda: compare(pair.selection, pair.mechanisms), lambda: None, places.notes
    )
    if comparison is None:
        return {}
    names = comparison.selection.query_names
    with summary:
        charts.show_legend(comparison)
        arrangement = choose_arrangement()
    maps = st.container()
    with st.container(width=320):
        row = pinned_query.menu(names, comparison.selection.first_row)
    quantities.publish(partial(comparison.quantities, row), "" if row is None else comparison.query_name(row))
    questions.offer_question(_("Which cells does B lose?"), comparison.question)
    with maps:
        charts.show(comparison, arrangement, row, lambda clicked: pinned_query.toggle(names, clicked))
    return {
        N_("Where it went"): partial(mass_shift.show, comparison, row),
        N_("Mass kept"): partial(mass_kept.show, comparison),
        N_("Cost"): partial(cost.show, comparison),
        N_("Empty rows"): partial(empty_rows.show, comparison),
        N_("Conventions"): conventions.show,
        N_("Stacked layers"): partial(receptive_field.show, comparison),
        N_("Code"): partial(export.show, comparison),
        N_("Gallery"): gallery.show,
    }


def show_long(pair: MaskPair) -> Mapping[str, Callable[[], None]]:
    """Draws the maps of a long text in fewer cells; returns the tabs that need no map of all cells."""
    try:
        long_charts.show(pair)
    except ValueError as problem:
        places.notes.error(plain(str(problem)), icon=":material/error:")
    return {
        N_("Mass kept"): partial(mass_kept.show, pair),
        N_("Cost"): partial(cost.show, pair),
        N_("Conventions"): conventions.show,
        N_("Code"): partial(export.show, pair),
        N_("Gallery"): gallery.show,
    }


pair = MaskPair(selection, (mechanisms[0], mechanisms[1]))
views = (show_long if viewport.is_long(pair.inputs) else show_whole)(pair)
if views:
    with st.container(key="views"):
        tabs = st.tabs(tab_names("look", views), key="look", bind="query-params")
    for tab, show in zip(tabs, views.values(), strict=True):
        if tab.open:
            with tab:
                show()
