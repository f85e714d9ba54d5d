"""Steps: where does each number come from?"""

import streamlit as st

from attnviz.ui import cache
from attnviz.ui.markdown import plain
from attnviz.ui.steps import example_picker, prediction, walkthrough, why_scale

st.subheader("Steps", anchor=False)
st.caption("Where does each number come from? All of attention in matrices small enough to be read.")

with st.sidebar:
    chosen = example_picker.controlled()
    place = st.container()
notes = st.container()  # one place for what comes and goes, so that what is below stays what it is
edits, lost = walkthrough.edited(chosen.example)
if lost:
    notes.warning(plain(lost))
shown = cache.or_last_good(
    "steps", lambda: walkthrough.walk(chosen.example(), edits), lambda: walkthrough.walk(chosen.first, {}), notes
)
with place:
    row = example_picker.followed(shown.steps.inputs.query_tokens)

step_by_step, predicted, divided = st.tabs(["Step by step", "Predict", "Why scale"], key="part", bind="query-params")
if step_by_step.open:
    with step_by_step:
        # Also where it is seen by someone who has scrolled down.
        walkthrough.show(shown, chosen.head, row, walkthrough.refused(chosen.example, edits))
if predicted.open:
    with predicted:
        prediction.show(shown, chosen.head, row)
if divided.open:
    with divided:
        why_scale.show()
