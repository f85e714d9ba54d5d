"""Masks: what do two masks do to the same scores, and where do they disagree?"""

from collections.abc import Callable
from functools import partial

import streamlit as st

from attnviz.ui import cache, pinned_query
from attnviz.ui.masks import (
    charts,
    code,
    conventions,
    cost,
    empty_rows,
    gallery,
    mask_editor,
    mass_shift,
    receptive_field,
)
from attnviz.ui.masks.comparison import SIDES, compare
from attnviz.ui.mechanism_controls import choose_score_and_normalizer
from attnviz.ui.source_picker import brought

st.subheader("Masks", anchor=False)
st.caption("What do two masks do to the same scores, and where do they disagree?")

what = brought()
with st.sidebar:
    shared = what.shown.mechanism if what.shown.locked else choose_score_and_normalizer(what.shown.mechanism)
if what.fixed("A mask would only hide some of them. Bring queries and keys to compare masks."):
    st.stop()

columns = st.columns(3, gap="medium")
mechanisms = []
for side, column in zip(SIDES, columns, strict=False):
    with column.container():
        mechanisms.append(mask_editor.choose_mechanism(side, shared))
legend = columns[2].container()

comparison = cache.or_last_good(
    "comparison",
    lambda: compare(what.source, what.layers, what.layer, what.head, (mechanisms[0], mechanisms[1])),
    lambda: None,
    what.notes,
)
if comparison:
    with legend:
        charts.show_legend(comparison)
    places = st.columns(3, gap="medium")
    names = pinned_query.numbered(range(comparison.inputs.queries), comparison.inputs.query_tokens)
    opening = what.source.opening.query
    with st.container(width=320):
        row = pinned_query.menu(names, opening if opening is not None and opening < len(names) else len(names) // 2)
    charts.show(comparison, places, row, lambda clicked: pinned_query.toggle(names, clicked))
    views: dict[str, Callable[[], None]] = {
        "Where it went": partial(mass_shift.show, comparison, row),
        "Cost": partial(cost.show, comparison),
        "Empty rows": partial(empty_rows.show, comparison),
        "Conventions": conventions.show,
        "Stacked layers": partial(receptive_field.show, comparison),
        "Code": partial(code.show, comparison),
        "Gallery": gallery.show,
    }
    for tab, view in zip(st.tabs(list(views), key="look", bind="query-params"), views.values(), strict=True):
        if tab.open:
            with tab:
                view()
