"""The chosen head: what it looks at, what it writes, and what it does."""

import streamlit as st

from attnviz.effects.ablation import Head
from attnviz.language import _
from attnviz.state.effects import DIFFERENCE, EffectsState
from attnviz.state.effects_links import term_link
from attnviz.ui import html
from attnviz.ui.chart import chart
from attnviz.ui.markdown import plain
from attnviz.ui.why_links import why_link
from attnviz.views.head_detail import head_detail, measured_query


def show_chosen_head(state: EffectsState, head: Head, effect: str) -> None:
    """Draws the keys of a head with their weights, their shares, and the effects of hiding them."""
    try:
        detail = head_detail(state, head)
    except ValueError as problem:
        st.caption(plain(str(problem)))
        return
    why: list[object] = []
    if state.measure == DIFFERENCE:
        link = term_link(state, head, measured_query(state, head[0]))
        why = [" ", why_link(link, _("Why this share?"))]
    st.html(html.element("p", detail.sentence(effect), *why))
    chart(detail.chart(), "effects-keys", height=110 + 90 * len(detail.rows))
