"""Controls of all tabs of Models: the model and its input, the layer, the head, and the display of maps."""

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz.language import option_with_name
from attnviz.state.models import OVERVIEW, TABS, ModelSelection, ModelsState
from attnviz.ui import head_controls, viewport_sliders
from attnviz.ui.field_widgets import draw
from attnviz.ui.menus import chosen_option
from attnviz.ui.models import model_picker
from attnviz.ui.widget_values import drop_stale


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
    )  # fmt: skip
    drop_stale(ModelsState.fields, state)
    return viewport_sliders.choose(state.selection)
