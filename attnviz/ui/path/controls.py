"""Controls of the Path page: the model, its text, the word to write, the temperature and the mask."""

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz.language import _
from attnviz.models import MINILM, TRANSLATOR
from attnviz.models.minilm import WHEEL, is_installed
from attnviz.server.page_runs import PageEnd
from attnviz.state.path import MOST_DRAWS, PathState
from attnviz.translator import EXAMPLES
from attnviz.ui import cache
from attnviz.ui.field_widgets import draw
from attnviz.ui.markdown import plain
from attnviz.ui.model_menu import choose_model, keep_model, load_or_end
from attnviz.ui.widget_values import copy_callback, field_value, set_field_value


def choose_path(notes: DeltaGenerator) -> PathState:
    """Draws the controls; problems are shown in `notes`. If the model cannot be shown, the page ends."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="path-controls"):
        with st.container(horizontal=True, vertical_alignment="bottom", gap="xxsmall", width=290, key="path-models"):
            model = choose_model(PathState.model, in_row=True)
        if model == MINILM and not is_installed():
            notes.info(
                plain(_("{not_installed} Until then, this is the translator.", not_installed=WHEEL.not_installed))
            )
            model = TRANSLATOR
        state = _choose_translation(notes) if model == TRANSLATOR else _choose_text(model, notes)
    with st.container(key="path-depth"):  # chosen in the picture
        return state.updated(open=draw(PathState.open, state), head=draw(PathState.head, state))


def draw_again() -> None:
    """Draws the next word with another random number."""
    set_field_value(PathState.draw, (field_value(PathState.draw) + 1) % (MOST_DRAWS + 1))


def _choose_text(model: str, notes: DeltaGenerator) -> PathState:
    text = draw(PathState.text, PathState.partial(model=model), width=400)
    load_or_end(model, notes, text)
    with notes, st.spinner(_("Computing …"), show_time=True):
        state = cache.or_last_good(
            "path text", model, lambda: PathState(model=model, text=text), lambda: _example(model), notes
        )
    if state is None:
        raise PageEnd
    keep_model(model)
    return state.updated(**_choose_word(state)) if state.next_word else state


def _example(model: str) -> PathState | None:
    """Returns the example of a model, or None if it cannot be shown."""
    try:
        return PathState(model=model)
    except (ValueError, NotImplementedError):
        return None


def _choose_translation(notes: DeltaGenerator) -> PathState:
    english = draw(PathState.english, width=290)
    st.menu_button(_("Examples"), EXAMPLES, key="examples", on_click=copy_callback(PathState.english, "examples"))
    place = st.container(width=150)
    chosen = _choose_word(PathState.partial(model=TRANSLATOR))
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
    return state.updated(word=word, **chosen)


def _choose_word(state: PathState) -> dict[str, float]:
    """Draws how the next word is chosen."""
    temperature = draw(PathState.temperature, state, widget=st.slider, step=0.1, width=140)
    with st.container(key="path-draws"):
        return {"temperature": temperature, "draw": draw(PathState.draw, state)}
