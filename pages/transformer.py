"""Transformer: how does a small, trained translator use attention three ways?"""

from attnviz.state.transformer import TransformerState
from attnviz.ui.field_widgets import choice_tabs
from attnviz.ui.heading import page_heading
from attnviz.ui.transformer import (
    before_attention,
    controls,
    notation,
    several_heads,
    three_uses,
    training,
    training_dynamics,
    what_if,
    word_by_word,
)

page_heading("transformer")

state = word_by_word.show(*controls.choose_sentence())
modules = three_uses, what_if, training_dynamics, notation, before_attention, several_heads
for (name, tab), module in zip(choice_tabs(TransformerState.tab).items(), modules, strict=True):
    if tab.open:
        with tab:
            module.show(state.updated(tab=name))
training.keep_alive()  # also while another tab is open
