"""Scores: what changes with another similarity or another normalizer?"""

import streamlit as st

from attnviz.language import N_, _
from attnviz.ui import mechanism_controls, pinned_query, presentation, source_picker
from attnviz.ui.heading import heading
from attnviz.ui.menus import tab_names
from attnviz.ui.scores import normalizers, similarities

heading(
    _("Scores"),
    _("What changes with another similarity of queries and keys, or with another way from scores to weights?"),
)

selection, places = source_picker.choose_selection()
with st.sidebar:
    if not selection.layer.locked:
        selection = selection.with_mechanism(mechanism_controls.choose_mask_and_biases(selection.mechanism))
if not places.show_locked(selection.layer, _("Bring queries and keys to compare similarities and normalizers.")):
    with presentation.control("pinned", width=320):
        row = pinned_query.menu(selection.query_names, selection.first_row)
    tabs = {N_("Similarities"): similarities.show, N_("Normalizers"): normalizers.show}
    for tab, show in zip(st.tabs(tab_names("look", tabs), key="look", bind="query-params"), tabs.values(), strict=True):
        if tab.open:
            with tab:
                show(selection, row)
