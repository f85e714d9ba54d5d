"""A page about a model and a text that it reads, or a picture: its controls, and its blocks below them."""

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz.base.language import _
from attnviz.page import html
from attnviz.page.blocks import Block
from attnviz.page.text_question import TextQuestion
from attnviz.pages.catalogue import BLOCKS
from attnviz.ui import cache, presentation
from attnviz.ui.blocks import draw_blocks
from attnviz.ui.field_widgets import hidden_container
from attnviz.ui.heading import page_heading
from attnviz.ui.lesson_strip import named_controls
from attnviz.ui.model_menu import choose_model, keep_model, load, show_word_pieces
from attnviz.ui.page_state import current_state, draw_field, draw_hidden_fields, draw_widgets, draw_words
from attnviz.ui.server.page_runs import PageEnd


def show_text_page(page: str) -> None:
    """Draws a page of BLOCKS about a text, with its question as a sentence with menus. What cannot be shown is
    explained, and the last state that can be is shown."""
    kind, blocks, words = BLOCKS[page]
    assert issubclass(kind, TextQuestion)
    page_heading(page)
    notes = st.container()
    controls: DeltaGenerator
    side: DeltaGenerator
    more: DeltaGenerator
    if named_controls() is not None:
        place, controls = st.container(), st.expander(_("More"), key="controls")
        side = more = controls
    else:
        controls, place = st.container(), st.container()
        with st.sidebar:
            side, more = st.container(), st.expander(_("More"), key="more")
    with side:
        choose_model(kind.model, more=more)
    first = [kind.model, kind.text]
    is_loaded = load(current_state(kind, first).model, notes)
    opened = current_state(kind, [*first, *(kind.tabs if is_loaded else ())])  # which depend on what a model reads
    is_hidden = is_loaded and not opened.reads_text
    with controls, hidden_container("text") if is_hidden else presentation.control("text"):
        draw_field(kind.text, opened)
    if not is_loaded:
        raise PageEnd
    show_word_pieces(opened.model, opened.text, notes)
    with notes, st.spinner(_("Computing …"), show_time=True):  # which takes the time of some forward passes
        state = current_state(kind)
    sentence = words(state)
    if sentence:
        with controls, presentation.control("question") if state.asks else hidden_container("question"):
            draw_words(state, sentence, f"{page}-question")
    drawn = [kind.model, kind.text, *(field for _text, field in sentence)]
    with side:
        draw_widgets("side", state, drawn)
    with more:
        draw_widgets("more", state, drawn)
    draw_hidden_fields(state)
    shown: dict[TextQuestion, list[Block]] = {}

    def show(state: TextQuestion) -> TextQuestion:
        if state.problem:
            raise ValueError(state.problem)
        with notes, st.spinner(_("Computing …"), show_time=True):
            shown[state] = [*blocks(state)]
        keep_model(state.model)
        return state

    def show_example() -> TextQuestion | None:
        try:
            return show(kind(model=opened.model))
        except (ValueError, NotImplementedError):
            return None

    good = cache.or_last_good(page, opened.model, lambda: show(state), show_example, notes)
    if good is not state and (link := opened.for_any_text):
        anchor = html.anchor(_("Read this text with SmolLM2"), presentation.page_link(page, link), target="_self")
        notes.html(html.element("p", anchor, class_="attnviz-choices"))
    if good is None:
        raise PageEnd
    with place:
        draw_blocks(page, good, shown.get(good) or blocks(good), more)
