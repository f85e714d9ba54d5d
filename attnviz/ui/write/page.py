"""Write: its controls, and its blocks below them."""

from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz.base.language import _
from attnviz.page.blocks import available
from attnviz.pages.catalogue import BLOCKS
from attnviz.pages.write.state import WriteState
from attnviz.ui import cache, presentation
from attnviz.ui.blocks import draw_blocks
from attnviz.ui.heading import page_heading
from attnviz.ui.lesson_strip import named_controls
from attnviz.ui.model_menu import choose_model, keep_model, load, show_word_pieces
from attnviz.ui.page_state import current_state, draw_field, draw_hidden_fields
from attnviz.ui.server.page_runs import PageEnd

# On which it depends what is written.
TEXT = WriteState.fields[: WriteState.fields.index(WriteState.length) + 1]


def show_write_page() -> None:
    """Draws the controls, and the text as it is written. What cannot be written is explained, and the last text of the
    same model is shown."""
    page_heading("write")
    is_lesson = named_controls() is not None
    top, notes, place = st.container(), st.container(), st.container(key="page-blocks")
    side: DeltaGenerator = st.expander(_("More"), key="controls") if is_lesson else st.sidebar
    with side if is_lesson else top:
        prompt = presentation.control("prompt")
        row = st.container(horizontal=True, gap="small", key="head-controls")
    rest = side.container()
    more = side if is_lesson else side.expander(_("More"), key="more")
    places: dict[str, DeltaGenerator] = {"top": row, "side": rest, "more": more}

    with rest:
        name = choose_model(WriteState.model, more=more)
    is_loaded = load(name, notes)
    opened = current_state(WriteState, TEXT)
    with prompt:
        draw_field(WriteState.prompt, opened)
    own = WriteState.model, WriteState.prompt
    _draw([field for field in TEXT if field not in own], opened, places)
    draw_hidden_fields(opened)
    if not is_loaded:
        raise PageEnd
    show_word_pieces(name, opened.prompt, notes)

    def begin() -> dict[str, Any]:
        with notes, st.spinner(_("Reading the prompt …")):
            assert opened.text.steps
        return opened.values

    written = cache.or_last_good("written text", opened.source.subject, begin, lambda: None, notes)
    if written is None:
        raise PageEnd
    keep_model(opened.model)
    # While it is being written, no query can be chosen: most are still to come.
    is_whole = bool(WriteState.partial(**written).text.ending)
    fields = [field for field in WriteState.fields if is_whole or field is not WriteState.pinned]
    state = current_state(WriteState, fields, **written)
    _draw([field for field in fields if field not in TEXT], state, places)
    with place:
        presentation.show_title(state.selection.title)
        draw_blocks("write", state, available(BLOCKS["write"].blocks(state)), more)


def _draw(fields: Any, state: WriteState, places: dict[str, DeltaGenerator]) -> None:
    for field in fields:
        if field.place in places:
            with places[field.place]:
                draw_field(field, state)
