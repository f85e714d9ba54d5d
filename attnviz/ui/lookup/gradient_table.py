"""The gradient of the result with respect to the query, for the dictionary and for hard and soft attention."""

import streamlit as st

from attnviz.language import _, option_name
from attnviz.lookup.dictionary import EXACT, lookup_gradient, lookup_mechanism
from attnviz.page.html import table
from attnviz.state.lookup import LookupState
from attnviz.ui.lookup.labels import exact

SOFT = "T = 1"  # compared where the chosen softness is not a softmax


def show(state: LookupState) -> None:
    soft = state.softness if state.softness.startswith("T") else SOFT
    compared = (EXACT, "hard", soft)
    rows = []
    for softness in compared:
        mechanism = lookup_mechanism(softness, state.score)
        gradient = lookup_gradient(state.table, state.query, mechanism)
        numbers = (_("none: the result jumps here"),) if gradient is None else (exact(along, 3) for along in gradient)
        rows.append((option_name(softness), *numbers))
    marked = compared.index(state.softness) if state.softness in compared else None
    st.html(
        table(
            (_("softness"), _("∂result/∂x"), _("∂result/∂y")),
            rows,
            marked=marked,
            class_="attnviz-table attnviz-lookup",
        )
    )
