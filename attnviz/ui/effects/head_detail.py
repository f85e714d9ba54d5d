"""The chosen head: what it looks at, what it writes, and what it does."""

import numpy as np
import streamlit as st

from attnviz.effects.ablation import Head
from attnviz.language import _
from attnviz.page import html
from attnviz.state.effects import DIFFERENCE, EffectsState
from attnviz.state.effects_links import term_link
from attnviz.ui.chart import chart
from attnviz.ui.markdown import plain
from attnviz.ui.why_links import why_link
from attnviz.views.effect_grid import EffectGrid
from attnviz.views.effect_sentences import both_effects
from attnviz.views.head_detail import head_detail, measured_query
from attnviz.views.head_effects import other_effect


def show_chosen_head(state: EffectsState, head: Head, grid: EffectGrid) -> None:
    """Draws the keys of a head with their weights, their shares, and the effects of hiding them; with the effect of the
    head, by zeros and by means where they differ."""
    try:
        detail = head_detail(state, head)
    except ValueError as problem:
        st.caption(plain(str(problem)))
        return
    effect, is_measured = grid.text(*head), not grid.is_estimated[head]
    if is_measured and np.isfinite(value := float(grid.values[head])):
        effect = both_effects(effect, value, other_effect(state, head), state.ablation)
    why: list[object] = []
    if state.measure == DIFFERENCE:
        link = term_link(state, head, measured_query(state, head[0]))
        why = [" ", why_link(link, _("Why this share?"))]
    st.html(html.element("p", detail.sentence(effect), *why))
    chart(detail.chart(), "effects-keys", height=110 + 90 * len(detail.rows))
