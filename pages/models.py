"""Models: what do the heads of any Hugging Face model do?"""

import streamlit as st

from attnviz.language import N_, _
from attnviz.ui import presentation
from attnviz.ui.heading import heading
from attnviz.ui.menus import tab_names
from attnviz.ui.models import aggregation, controls, head_metrics, needle, overview, side_by_side, what_if

heading(
    _("Models"),
    _("What do the heads of any Hugging Face model do? Take one that is here, or name another, and type a text."),
)

choices = st.container(key="choices")
notes = st.container()  # one place for what comes and goes, so that the charts below stay what they are
with choices:
    selection = controls.choose_model_selection(notes)
    presentation.show_title(f"{selection.model.name}: {selection.title}")
tabs = {
    N_("Overview"): overview.show,
    N_("What heads do"): head_metrics.show,
    N_("Together"): aggregation.show,
    N_("What if"): what_if.show,
    N_("Side by side"): side_by_side.show,
    N_("Needle"): needle.show,
}
for tab, show in zip(
    st.tabs(tab_names("inspect", tabs), key="inspect", bind="query-params"), tabs.values(), strict=True
):
    if tab.open:
        with tab:
            show(selection)
