"""A page about a head of a source: its controls, and its blocks below them."""

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz.language import _
from attnviz.lessons.lesson_files import LESSON
from attnviz.page.blocks import Block
from attnviz.server.page_runs import PageEnd
from attnviz.state.head_state import HeadState
from attnviz.ui import cache, presentation, source_picker
from attnviz.ui.blocks import draw_blocks
from attnviz.ui.field_widgets import draw
from attnviz.ui.heading import page_heading
from attnviz.ui.page_state import current_state, draw_field, draw_hidden_fields
from attnviz.views.pages import HEAD_BLOCKS


def show_head_page(page: str) -> None:
    """Draws a page of HEAD_BLOCKS. What cannot be shown is explained, and the last state that can be is shown."""
    kind, blocks = HEAD_BLOCKS[page]
    page_heading(page)
    # A lesson has its own question, so that controls are folded below it; in a presentation they stay.
    is_lesson = bool(st.query_params.get(LESSON)) and not presentation.presenting()
    top, place = st.container(), st.container()
    side: DeltaGenerator = st.expander(_("Text and head"), key="controls") if is_lesson else st.sidebar
    with side if is_lesson else top:
        source, _layers, places = source_picker.choose_layers(presented=True, side=side)
        controls = presentation.control("head", horizontal=True, gap="small")
    in_lesson = top.container(horizontal=True, gap="small", key="in-lesson") if is_lesson else controls
    state = current_state(kind, source=source)
    shown: dict[HeadState, list[Block]] = {}

    def show() -> HeadState:
        if state.problem:
            raise ValueError(state.problem)
        shown[state] = [*blocks(state)]
        return state

    good: HeadState | None = cache.or_last_good(page, source.subject, show, lambda: None, places.notes)
    drawn = state if good is None or not state.problem else good
    fields = [field for field in drawn.fields if field.name in drawn.values]
    more = side if is_lesson else side.expander(_("More"), key="more")
    for field in fields:
        place_of_field = {"top": in_lesson if field in kind.in_lessons else controls, "more": more}.get(field.place)
        if place_of_field:
            with place_of_field:
                # Where the last good state is shown, its widgets keep what has been chosen, which it does not take.
                draw_field(field, drawn) if drawn is state else draw(field, drawn)
    draw_hidden_fields(drawn)
    if good is None:
        raise PageEnd
    with place:
        presentation.show_title(good.selection.title)
        draw_blocks(page, good, shown.get(good) or blocks(good))
