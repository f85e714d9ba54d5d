"""Explore: what does each token look at, in every head?"""

from dataclasses import replace

import pandas as pd
import streamlit as st

from attnviz.language import _
from attnviz.ui import cache, head_charts, head_controls, mechanism_controls, presentation, source_picker, viewport
from attnviz.ui.cell_colors import choose_cell_colors
from attnviz.ui.downloads import FILE_NOT_LINKED, downloads
from attnviz.ui.head_map import check_maps
from attnviz.ui.heading import heading
from attnviz.ui.widgets import more

heading(_("Explore"), _("What does each token look at, in every head? Type a sentence, or bring vectors of your own."))

selection, places = source_picker.choose_selection(presented=True, long=True)
with st.sidebar:
    own = selection.mechanism
    mask_place, others = st.container(), more("score", "biases", "normalizer", *head_controls.DISPLAY)
    with mask_place:
        chosen = own if selection.layer.locked else mechanism_controls.choose_mechanism(own, others)
    with others:
        special, all_layers, colors = head_controls.choose_display(selection.layers, selection.index)
mechanisms = [layer.mechanism.updated(own, chosen) for layer in selection.layers]
selection = replace(
    selection, mechanisms=mechanisms, special=special, all_layers=all_layers, colors=colors,
    viewport=viewport.choose_viewport(selection.layer.inputs), cell_colors=choose_cell_colors(selection.layer.inputs),
)  # fmt: skip
places.show_locked(selection.layer)
title = st.empty()

drawn = cache.or_last_good(
    "selection", selection.source.subject, lambda: check_maps(selection), lambda: None, places.notes
)
source_picker.keep(drawn)
if drawn:
    figure, head_map = head_charts.show(drawn)
    with title:
        presentation.show_title(drawn.title)
    table, take = st.columns([0.8, 0.2])
    with take:
        downloads(head_map, figure, not_linked=_(FILE_NOT_LINKED) if drawn.source.private else "")
    if table.toggle(_("Show the numbers as a table"), key="table", bind="query-params"):
        st.dataframe(pd.DataFrame(head_charts.as_table(head_map)).round(4), hide_index=True)
    st.caption(
        _(
            "**What you are seeing.** Each row is a token that looks, a *query*; each column a token "
            "that can be looked at, a *key*. The color of a cell is the share of the query's attention "
            "that goes to the key: after a softmax a row adds up to 1. Gray cells are masked: the "
            "query may not look there. A layer has several *heads*, each with queries and keys of its "
            "own; the small maps show them all."
        )
    )
