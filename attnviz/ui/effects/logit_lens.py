"""The tab of the logit lens: what the model would say after each layer, at each token."""

import streamlit as st

from attnviz.figures.layer_tokens import layer_at
from attnviz.language import _
from attnviz.page import html
from attnviz.state.effects import EffectsState
from attnviz.ui import quantities
from attnviz.ui.chart import chart
from attnviz.ui.field_widgets import draw, draw_hidden_value, set_field_value
from attnviz.ui.why_links import why_link
from attnviz.views.logit_lens import LensView, lens_view

ROW = 22  # pixels
TABLE = "attnviz-table attnviz-shares"


def show(state: EffectsState) -> None:
    """Draws the likeliest token of each layer and position, and those of the chosen cell with links to Why."""
    columns = st.columns([0.35, 0.65], gap="small", vertical_alignment="bottom")
    with columns[0]:
        state = state.updated(lens_color=draw(EffectsState.lens_color, state))
    state = state.updated(lens_cell=draw_hidden_value(EffectsState.lens_cell))
    with st.spinner(_("Computing …"), show_time=True):
        shown = lens_view(state)
    quantities.publish(lambda: shown.quantities)
    st.html(html.summary(shown.sentence, role="status") + (html.note(shown.note) if shown.note else ""))
    picture = shown.chart()

    def open_cell(row: int, column: int) -> None:
        set_field_value(EffectsState.lens_cell, (layer_at(picture, row), shown.positions[column]))

    chart(picture, "effects-lens", height=110 + ROW * picture.spec.rows, grows=False, on_click=open_cell)
    st.html(_cell(shown))
    st.caption(
        _(
            "**What you are seeing.** The residual stream after each layer is given to what follows the last one: the "
            "final norm, which takes its scale from that stream, and the output embedding. The top row is what the "
            "model itself says. **What it does not say:** lower layers write for those above them, not for the output "
            "embedding, so that their words may mean little (nostalgebraist 2020, “interpreting GPT: the logit lens”)."
        )
    )


def _cell(shown: LensView) -> html.Markup:
    """Returns the likeliest tokens of the cell that is shown."""
    rows = [
        (html.token(row.token), row.probability, "" if row.link is None else why_link(row.link, _("Why this word?")))
        for row in shown.rows
    ]
    table = html.table((_("token"), _("probability"), _("why the model says it")), rows, class_=TABLE)
    text = _("Why is asked of the whole model: why it says the token there, rather than the likeliest other one.")
    return html.element("h4", shown.title) + table + html.note(text)
