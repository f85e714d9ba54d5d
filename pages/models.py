"""Models: what do the heads of any Hugging Face model do?"""

from functools import partial

import streamlit as st

from attnviz.state.models import AGGREGATION, OVERVIEW, WHAT_IF, ModelsState
from attnviz.ui import presentation
from attnviz.ui.field_widgets import draw_tabs
from attnviz.ui.heading import page_heading
from attnviz.ui.models import aggregation, controls, overview, what_if

page_heading("models")

choices = st.container(key="choices")
notes = st.container()  # one place for what comes and goes, so that the charts below stay what they are
with choices:
    selection = controls.choose_model_selection(notes)
    presentation.show_title(f"{selection.model.title}: {selection.title}")
shows = {
    OVERVIEW: overview.show,
    AGGREGATION: aggregation.show,
    WHAT_IF: what_if.show,
}
draw_tabs(ModelsState.inspect, {name: partial(show, selection) for name, show in shows.items()})
