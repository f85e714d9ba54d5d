"""The tab of kinds of heads: what heads do on random repeated tokens, by the names that the field has for it."""

import streamlit as st

from attnviz.formatting import number
from attnviz.language import _
from attnviz.page import html
from attnviz.state.effects import EffectsState
from attnviz.ui import quantities
from attnviz.ui.effects.head_choice import draw_fields, head_link, show_grid
from attnviz.views.effects import detection_quantities
from attnviz.views.head_detection import LEAST, DetectionView, detection_view

TABLE = "attnviz-table attnviz-shares"


def show(state: EffectsState) -> None:
    """Draws the shares of all heads by a detector, the largest of them, and all that the chosen head does."""
    state = draw_fields(state, (EffectsState.detector, EffectsState.head))
    with st.spinner(_("Computing …"), show_time=True):
        shown = detection_view(state)
    quantities.publish(lambda: detection_quantities(shown))
    st.html(html.summary(shown.sentence, role="status"))
    show_grid(shown.chart(state.head), "effects-kinds", state)
    left, right = st.columns(2, gap="medium")
    with left:
        st.html(_strongest(shown, state))
    with right:
        if state.head is None:
            st.html(html.note(_("Click a head to see all that it does.")))
        else:
            st.html(html.table((shown.name(state.head), _("share")), shown.of_head(state.head), class_=TABLE))
    st.caption(
        _(
            "**What you are seeing.** A text of random tokens, twice in the same order: nothing but order and "
            "repetition can be attended to. Each number is a share of all attention of the head, as mean of texts of "
            "several seeds. **What it does not say:** what a head does in another text. Copying is by what values "
            "write to the logits directly."
        )
    )


def _strongest(shown: DetectionView, state: EffectsState) -> html.Markup:
    """Returns the heads with the largest shares as a table."""
    rows = [(head_link(state, row.name, row.head), row.share, row.ends) for row in shown.rows]
    if not rows:
        return html.note(_("No head has a share of {least} or more.", least=number(LEAST)))
    return html.table((_("Head"), _("share"), _("least and largest")), rows, class_=TABLE)
