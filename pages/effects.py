"""Effects: what does a part of the model do?"""

from functools import partial

import streamlit as st

from attnviz.language import _
from attnviz.state.effects import HEADS, WORDS, EffectsState
from attnviz.ui import presentation
from attnviz.ui.effects import controls, without_heads, without_words
from attnviz.ui.field_widgets import draw_tabs
from attnviz.ui.heading import page_heading

page_heading("effects")
state = controls.choose_effects(st.container())
presentation.show_title(state.model)
shows = {HEADS: without_heads.show, WORDS: without_words.show}
draw_tabs(EffectsState.inspect, {name: partial(show, state) for name, show in shows.items()})
st.caption(
    _(
        "**What you are seeing.** Each number is what the measure becomes when the model runs without a part, minus "
        "what it is with all: the rest of the model works with what is left. **What it does not say:** an effect is "
        "that of one part alone. Two heads that do the same may each have none, because the other one steps in."
    )
)
