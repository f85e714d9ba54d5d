"""Transformer: how does a small, trained translator use attention three ways?"""

import streamlit as st

from attnviz.language import N_, _
from attnviz.ui.heading import heading
from attnviz.ui.menus import tab_names
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
    N_("Three uses"): three_uses,
    N_("What if"): what_if,
    N_("How attention forms"): training_dynamics,
    N_("In symbols"): notation,
    N_("Before attention"): before_attention,
    N_("Several heads"): several_heads,
}
for tab, module in zip(st.tabs(tab_names("tab", tabs), key="tab", bind="query-params"), tabs.values(), strict=True):
    if tab.open:
        with tab:
            module.show(selection)
training.keep_alive()  # also while another tab is open
