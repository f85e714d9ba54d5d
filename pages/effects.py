"""Effects: what does a part of the model do?"""

from collections.abc import Callable, Iterable
from functools import partial

import streamlit as st

from attnviz.language import _
from attnviz.page.blocks import Block
from attnviz.state.effects import (
    CIRCUITS,
    COMPARED,
    DETECTORS_TAB,
    HEADS,
    LENS,
    PATCHING,
    WORDS,
    EffectsState,
)
from attnviz.ui import presentation
from attnviz.ui.blocks import draw_blocks
from attnviz.ui.effects import (
    compared,
    controls,
    head_circuits,
    patching,
)
from attnviz.ui.field_widgets import draw_tabs
from attnviz.ui.heading import page_heading
from attnviz.ui.page_state import draw_hidden_fields, with_block_fields
from attnviz.views.head_detection import kinds_of_heads
from attnviz.views.logit_lens import logit_lens_blocks
from attnviz.views.without_heads import without_heads
from attnviz.views.word_effects import without_words


def show_tab(blocks: Callable[[EffectsState], Iterable[Block]]) -> None:
    """Draws a tab that is a list of blocks."""
    shown = with_block_fields(state)
    with st.spinner(_("Computing …"), show_time=True):
        drawn = [*blocks(shown)]
    draw_blocks("effects", shown, drawn)
    draw_hidden_fields(shown)


page_heading("effects")
state = controls.choose_effects(st.container())
presentation.show_title(state.model)
shows: dict[str, Callable[[], None]] = {
    HEADS: partial(show_tab, without_heads),
    WORDS: partial(show_tab, without_words),
    PATCHING: partial(patching.show, state),
    LENS: partial(show_tab, logit_lens_blocks),
    COMPARED: partial(compared.show, state),
    CIRCUITS: partial(head_circuits.show, state),
    DETECTORS_TAB: partial(show_tab, kinds_of_heads),
}
draw_tabs(EffectsState.inspect, shows)
