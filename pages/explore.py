"""Explore: what does each token look at, in every head?"""

import pandas as pd
import streamlit as st

from attnviz.ui import cache, head_charts, head_controls, mechanism_controls, presentation
from attnviz.ui.downloads import downloads
from attnviz.ui.source_picker import brought
from attnviz.ui.view import View

st.subheader("Explore", anchor=False)
st.caption("What does each token look at, in every head? Type a sentence, or bring vectors of your own.")

what = brought()
with st.sidebar:
    own = what.shown.mechanism
    chosen = own if what.shown.locked else mechanism_controls.choose_mechanism(own)
    special, every, colors = head_controls.choose_display(what.layers, what.layer)
what.fixed()

view = cache.or_last_good(
    "view",
    lambda: View(
        source=what.source,
        layers=what.layers,
        mechanisms=[each.mechanism.swapped(own, chosen) for each in what.layers],
        layer=what.layer,
        head=what.head,
        special=special,
        every=every,
        colors=colors,
    ),
    lambda: None,
    what.notes,
)
if view:
    cache.remember("layers", (view.source, view.layers))  # those of a picture that was refused are forgotten
    figure, seen = head_charts.show(view)
    presentation.name(view.title)
    table, take = st.columns([0.8, 0.2])
    with take:
        downloads(seen, figure)
    if table.toggle("Show the numbers as a table", key="table", bind="query-params"):
        st.dataframe(pd.DataFrame(head_charts.as_table(seen)).round(4), hide_index=True)
    st.caption(
        "**What you are seeing.** Each row is a token that looks, a *query*; each column a token that can be looked "
        "at, a *key*. The color of a cell is the share of the query's attention that goes to the key: after a softmax "
        "a row adds up to 1. Gray cells are masked: the query may not look there. A layer has several *heads*, each "
        "with queries and keys of its own; the small maps show them all."
    )
