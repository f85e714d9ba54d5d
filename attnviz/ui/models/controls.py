"""Controls of all tabs of Models: the model and its input, the layer, the head, and the display of maps."""

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz.ui import head_controls, viewport
from attnviz.ui.cell_colors import choose_cell_colors
from attnviz.ui.models import model_picker, stale_parameters
from attnviz.ui.models.selection import ModelSelection


def choose_model_selection(notes: DeltaGenerator) -> ModelSelection:
    """Draws the controls and returns the selection; problems are shown in `notes`."""
    example, layers = model_picker.choose_model(notes)
    with st.sidebar:
        index, head = head_controls.choose_layer_and_head(layers, example.opening)
        special, _, colors = head_controls.choose_display([layers[index]], 0)  # the mosaic always has all layers
    selection = ModelSelection(
        source=example,
        model=example.model(),
        layers=layers,
        mechanisms=[layer.mechanism for layer in layers],
        index=index,
        head=head,
        special=special,
        colors=colors,
        viewport=viewport.choose_viewport(layers[index].inputs),
        cell_colors=choose_cell_colors(layers[index].inputs),
    )
    stale_parameters.clear(selection)
    return selection
