"""Scores: what changes with another similarity or another normalizer?"""

from functools import partial

import streamlit as st

from attnviz.language import _
from attnviz.state.scores import NORMALIZERS_TAB, SIMILARITIES, ScoresState
from attnviz.ui import mechanism_controls, pinned_query, presentation, source_picker
from attnviz.ui.field_widgets import draw_tabs
from attnviz.ui.heading import page_heading
from attnviz.ui.scores import normalizers, similarities

page_heading("scores")

selection, places = source_picker.choose_selection()
with st.sidebar:
    if not selection.layer.locked:
        selection = selection.with_mechanism(
            mechanism_controls.change_parts(selection.mechanism, ScoresState.biases, ScoresState.mask)
        )
if not places.show_locked(selection.layer, _("Upload queries and keys to compare similarities and normalizers.")):
    with presentation.control("pinned", width=320):
        row = pinned_query.menu(selection)
    shows = {SIMILARITIES: similarities.show, NORMALIZERS_TAB: normalizers.show}
    draw_tabs(ScoresState.look, {name: partial(show, selection, row) for name, show in shows.items()})
