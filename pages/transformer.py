"""Transformer: how does a small, trained translator use attention three ways?"""

import streamlit as st

from attnviz.language import _
from attnviz.ui.heading import heading
from attnviz.ui.transformer import (
    before_attention,
    controls,
    decoding,
    notation,
    several_heads,
    three_uses,
    training,
    training_dynamics,
    what_if,
)

heading(
    _("Transformer"),
    _("How does a transformer use attention three ways? A small one translates English into French, word by word."),
)

selection = decoding.show(controls.select())
tabs = {
    "Three uses": three_uses,
    "What if": what_if,
    "How attention forms": training_dynamics,
    "In symbols": notation,
    "Before attention": before_attention,
    "Several heads": several_heads,
}
for tab, module in zip(st.tabs(list(tabs), key="tab", bind="query-params"), tabs.values(), strict=True):
    if tab.open:
        with tab:
            module.show(selection)
training.keep_alive()  # also while another tab is open
