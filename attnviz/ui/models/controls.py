"""Controls of all tabs of Models: the model and its input, the layer, the head, and the display of maps."""

from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz.language import option_with_name
from attnviz.state.long_map_state import LongMapState
from attnviz.state.models import OVERVIEW, SAME, SIDE_BY_SIDE, TABS, ModelSelection, ModelsState
from attnviz.ui import head_controls, viewport_sliders
from attnviz.ui.field_widgets import draw
from attnviz.ui.menus import chosen_option
from attnviz.ui.models import model_picker
from attnviz.ui.widget_values import drop_stale, field_text


def choose_model_selection(notes: DeltaGenerator) -> ModelSelection:
    """Draws the controls and returns the selection; problems are shown in `notes`."""
    source, layers = model_picker.choose_example(notes)
    tab = option_with_name(chosen_option(ModelsState.inspect.parameter, TABS), TABS) or OVERVIEW
    with st.sidebar:
        opened = head_controls.choose_head(source, layers)
        special, colors = draw(ModelsState.special_tokens, opened), draw(ModelsState.colors)
    state = ModelsState(
        model=source.name, text=source.text, second=source.pair, picture=source.image,
        layer=opened.index, head=opened.head, special_tokens=special, colors=colors, inspect=tab,
        right_model=ModelsState.right_model.parse(field_text(ModelsState.right_model)),
    )  # fmt: skip
    # What the right side has is known where it is shown; it may be longer than the left side.
    known_later: list[Any] = []
    if tab == SIDE_BY_SIDE or state.right_model != SAME:
        known_later += [ModelsState.right_layer, ModelsState.right_head]
    if tab == SIDE_BY_SIDE:
        known_later += LongMapState.fields
    drop_stale([field for field in ModelsState.fields if field not in known_later], state)
    return viewport_sliders.choose(state.selection)
