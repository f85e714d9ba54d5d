"""Steps: where does each number come from?"""

from collections.abc import Callable
from functools import partial

import streamlit as st

from attnviz.state.steps import PREDICT, STEP_BY_STEP, WHY_SCALE, StepsState
from attnviz.ui.field_widgets import draw_tabs
from attnviz.ui.heading import page_heading
from attnviz.ui.steps import controls, predict_weights, walkthrough, why_scale

page_heading("steps")

notes = st.container()  # one place for what comes and goes, so that what is below stays what it is
state = controls.choose_steps(notes)

shows: dict[str, Callable[[], object]] = {
    STEP_BY_STEP: partial(walkthrough.show, state),
    PREDICT: partial(predict_weights.show, state),
    WHY_SCALE: why_scale.show,
}
draw_tabs(StepsState.part, shows)
