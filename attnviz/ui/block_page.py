"""A page about an example of its own: its controls, and its blocks below them."""

from contextlib import nullcontext

import streamlit as st

from attnviz.base.language import _
from attnviz.page.blocks import Block
from attnviz.page.state import State
from attnviz.pages.catalogue import BLOCKS
from attnviz.ui import cache
from attnviz.ui.blocks import draw_blocks
from attnviz.ui.field_widgets import draw
from attnviz.ui.heading import page_heading
from attnviz.ui.lesson_strip import named_controls
from attnviz.ui.page_state import current_state, draw_field, draw_hidden_fields
from attnviz.ui.server.page_runs import PageEnd


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
    # Fields that the state does not have are those of what is shown.
    own = [field for field in kind.fields if field.place in ("side", "more") and (good or field.name in state.values)]
    is_lesson = named_controls() is not None
    with st.sidebar if own and not is_lesson else nullcontext():
        side = st.container()
        more = st.expander(_("More"), key="controls" if is_lesson else "more") if own or is_lesson else side
    for field in own:
        with side if field.place == "side" and not is_lesson else more:
            if field.name in state.values:
                draw_field(field, state)
            else:  # what has been chosen stays, though it is not shown
                draw(field, good)
    draw_hidden_fields(state)
    if good is None:
        raise PageEnd
    with place:
        draw_blocks(page, good, shown.get(good) or blocks(good), more)
