"""Transformer: how does a small, trained translator use attention three ways?"""

from functools import partial

from attnviz.state.transformer import TransformerState
from attnviz.ui.field_widgets import draw_tabs
from attnviz.ui.heading import page_heading
from attnviz.ui.transformer import (
    before_attention,
    controls,
    notation,
    several_heads,
    three_uses,
    training_dynamics,
    what_if,
    word_by_word,
)

page_heading("transformer")

state = word_by_word.show(*controls.choose_sentence())
modules = three_uses, what_if, training_dynamics, notation, before_attention, several_heads
names = TransformerState.tab.options(state)
draw_tabs(
    TransformerState.tab,
    {name: partial(module.show, state.updated(tab=name)) for name, module in zip(names, modules, strict=True)},
)
