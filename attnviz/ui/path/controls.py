"""Controls of the Path page: the model, its sentence, the word to write, the temperature and the mask."""

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz.language import _
from attnviz.models.minilm import NOT_INSTALLED, is_installed
from attnviz.state.path import MINILM, MOST_DRAWS, TRANSLATOR, PathState
from attnviz.translator import EXAMPLES
from attnviz.ui import cache
from attnviz.ui.field_widgets import copy_value, draw, field_value, set_field_value
from attnviz.ui.markdown import plain


def choose_path(notes: DeltaGenerator) -> PathState:
    """Draws the controls; problems are shown in `notes`."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="path-controls"):
        model = draw(PathState.model, width=122)
        if model == MINILM and not is_installed():
            notes.info(plain(_("{not_installed} Until then, this is the translator.", not_installed=_(NOT_INSTALLED))))
            model = TRANSLATOR
        state = _choose_text(notes) if model == MINILM else _choose_translation(notes)
    with st.container(key="path-depth"):  # chosen in the picture
        return state.updated(open=draw(PathState.open, state), head=draw(PathState.head, state))


def draw_again() -> None:
    """Draws the next word with another random number."""
    set_field_value(PathState.draw, (field_value(PathState.draw) + 1) % (MOST_DRAWS + 1))


def _choose_text(notes: DeltaGenerator) -> PathState:
    text = draw(PathState.text, width=460)
    return cache.or_last_good(
        "path text", MINILM, lambda: PathState(model=MINILM, text=text), lambda: PathState(model=MINILM), notes
    )


def _choose_translation(notes: DeltaGenerator) -> PathState:
    english = draw(PathState.english, width=330)
    st.menu_button(_("Examples"), EXAMPLES, key="examples", on_click=copy_value, args=(PathState.english, "examples"))
    place = st.container(width=170)
    temperature = draw(PathState.temperature, widget=st.slider, step=0.1, width=150)
    with st.container(key="path-draws"):
        number = draw(PathState.draw)
    refused: list[str] = []
    with st.popover(_("Mask"), icon=":material/grid_off:"):
        st.caption(_("Where the decoder’s self-attention may look. The whole translation follows."))
        mask = draw(PathState.mask, on_refusal=refused.append)
    for problem in refused:
        notes.error(problem, icon=":material/error:")
    state = cache.or_last_good(
        "path translation", mask, lambda: PathState(english=english, mask=mask), lambda: PathState(mask=mask), notes
    )
    with place:
        word = draw(PathState.word, state, st.select_slider)
    return state.updated(word=word, temperature=temperature, draw=number)
