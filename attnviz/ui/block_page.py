"""A page about an example of its own: its controls, and its blocks below them."""

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz.language import _
from attnviz.lessons.lesson_files import LESSON
from attnviz.page.blocks import Block
from attnviz.server.page_runs import PageEnd
from attnviz.state.state import State
from attnviz.ui import cache, presentation
from attnviz.ui.blocks import draw_blocks
from attnviz.ui.field_widgets import draw
from attnviz.ui.heading import page_heading
from attnviz.ui.page_state import current_state, draw_field, draw_hidden_fields
from attnviz.views.pages import BLOCKS


def show_block_page(page: str) -> None:
    """Draws a page of BLOCKS that reads no model. What cannot be shown is explained, and the last state that can be is
    shown, or else the one that the page opens with."""
    kind, blocks, _words = BLOCKS[page]
    page_heading(page)
    notes, place = st.container(), st.container(key="page-blocks")
    state = current_state(kind)
    shown: dict[State, list[Block]] = {}

    def show() -> State:
        if state.problem:
            raise ValueError(state.problem)
        shown[state] = [*blocks(state)]
        return state

    with place:  # for the progress of what takes time
        good = cache.or_last_good(page, None, show, lambda: kind() if state.problem else None, notes)
    _draw_controls(state, good)
    draw_hidden_fields(state)
    if good is None:
        raise PageEnd
    with place:
        draw_blocks(page, good, shown.get(good) or blocks(good))


def _draw_controls(state: State, good: State | None) -> None:
    """Draws the controls of the sidebar, in a lesson folded below its question. Fields that the state does not have
    are those of what is shown."""
    own = [field for field in state.fields if field.place in ("side", "more") and (good or field.name in state.values)]
    if not own:
        return
    side: DeltaGenerator
    if st.query_params.get(LESSON) and not presentation.presenting():
        side = more = st.expander(_("Controls"), key="controls")
    else:
        with st.sidebar:
            side, more = st.container(), st.expander(_("More"), key="more")
    for field in own:
        with side if field.place == "side" else more:
            if field.name in state.values:
                draw_field(field, state)
            else:  # what has been chosen stays, though it is not shown
                draw(field, good)
