"""The chosen head: what it looks at, what it writes, and what it does."""

import streamlit as st

from attnviz.effects.ablation import Head
from attnviz.state.effects import EffectsState
from attnviz.ui import html
from attnviz.ui.chart import chart
from attnviz.ui.markdown import plain
from attnviz.views.head_detail import head_detail


def show_chosen_head(state: EffectsState, head: Head, effect: float) -> None:
    """Draws the keys of a head with their weights, their shares, and the effects of hiding them."""
    try:
        detail = head_detail(state, head)
    except ValueError as problem:
        st.caption(plain(str(problem)))
        return
    st.html(html.paragraphs([detail.sentence(effect)]))
    chart(detail.chart(), "effects-keys", height=110 + 90 * len(detail.rows))
