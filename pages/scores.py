"""Scores: what changes with another similarity or another normalizer?"""

from functools import partial

import streamlit as st

from attnviz.ui import pinned_query
from attnviz.ui.mechanism_controls import choose_mask_and_biases
from attnviz.ui.scores import normalizers, similarities
from attnviz.ui.source_picker import brought

st.subheader("Scores", anchor=False)
st.caption("What changes with another similarity of queries and keys, or with another way from scores to weights?")

what = brought()
with st.sidebar:
    shared = what.shown.mechanism if what.shown.locked else choose_mask_and_biases(what.shown.mechanism)
inputs = what.shown.inputs
names = pinned_query.numbered(range(inputs.queries), inputs.query_tokens)
opening = what.source.opening.query
if not what.fixed("Bring queries and keys to compare similarities and normalizers."):
    with st.container(width=320):
        row = pinned_query.menu(names, opening if opening is not None and opening < len(names) else None)
    by_score, by_normalizer = st.tabs(["Similarities", "Normalizers"], key="look", bind="query-params")
    if by_score.open:
        with by_score:
            toggle = partial(pinned_query.toggle, names)
            similarities.show(what.source, what.layers, what.layer, what.head, shared, row, toggle)
    if by_normalizer.open:
        with by_normalizer:
            normalizers.show(what.source, what.layers, what.layer, what.head, shared, row)
