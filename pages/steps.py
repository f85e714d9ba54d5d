"""Steps: where does each number come from?"""

import streamlit as st

from attnviz.language import N_, _
from attnviz.ui.heading import heading
from attnviz.ui.menus import tab_names
from attnviz.ui.steps import controls, prediction, walkthrough, why_scale

heading(_("Steps"), _("Where does each number come from? All of attention in matrices small enough to be read."))

notes = st.container()  # one place for what comes and goes, so that what is below stays what it is
selection = controls.choose_steps(notes)

step_by_step, predict, scale = st.tabs(
    tab_names("part", [N_("Step by step"), N_("Predict"), N_("Why scale")]), key="part", bind="query-params"
)
if step_by_step.open:
    with step_by_step:
        walkthrough.show(selection)
if predict.open:
    with predict:
        prediction.show(selection)
if scale.open:
    with scale:
        why_scale.show()
