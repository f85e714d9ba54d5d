"""Explore: what does each token look at, in every head?"""

from dataclasses import replace

import pandas as pd
import streamlit as st

from attnviz.language import _
from attnviz.state.explore import ExploreState
from attnviz.ui import cache, head_charts, mechanism_controls, presentation, source_picker, viewport_sliders
from attnviz.ui.downloads import downloads
from attnviz.ui.field_widgets import draw
from attnviz.ui.heading import page_heading
from attnviz.views.head_view import head_view

page_heading("explore")

opened, places = source_picker.choose_selection(presented=True, long=True)
with st.sidebar:
    own = opened.layer.mechanism
    mask_place = st.container()
    others = mechanism_controls.more("score", "biases", "normalizer", "special-tokens", "mosaic", "colors")
    with mask_place:
        chosen = own if opened.layer.locked else mechanism_controls.choose_mechanism(opened.mechanism, others)
    with others:
        special = draw(ExploreState.special_tokens, opened)
        all_layers, colors = draw(ExploreState.mosaic, opened), draw(ExploreState.colors)
layers = [layer.updated(own, chosen) for layer in opened.layers]
selection = replace(opened, layers=layers, special=special, all_layers=all_layers, colors=colors)
selection = viewport_sliders.choose(selection)
places.show_locked(selection.layer)
title = st.empty()

drawn = cache.or_last_good(
    "selection",
    selection.source.subject,
    lambda: head_view(selection),
    lambda: None,
    places.notes,
    keeps=source_picker.is_small(opened),
)
if drawn is None or drawn.selection is selection:
    source_picker.keep(opened if drawn else None)
if drawn:
    figure, head_map = head_charts.show(drawn)
    with title:
        presentation.show_title(drawn.selection.title)
    table, take = st.columns([0.8, 0.2])
    with take:
        downloads(head_map, figure, weights=drawn.selection.source.weights_note)
    if draw(ExploreState.table, widget=table.toggle):
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
