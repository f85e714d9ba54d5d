"""The tab of a small set of heads that keeps most of the measure, and of groups of heads by hand."""

from functools import partial

import streamlit as st

from attnviz.effects.head_groups import HeadSet
from attnviz.language import _, plural
from attnviz.server import jobs
from attnviz.state.effects import EffectsState
from attnviz.ui import html, quantities
from attnviz.ui.effects.head_choice import draw_fields, show_grid
from attnviz.ui.field_widgets import draw
from attnviz.ui.job_progress import result_so_far
from attnviz.ui.link_state import own_address
from attnviz.views.effects import set_quantities
from attnviz.views.smallest_set import (
    ends_sentence,
    group_effects_of,
    group_rows,
    set_chart,
    set_key,
    set_sentence,
    smallest_head_set,
)


def show(state: EffectsState) -> None:
    """Draws the search for a small set of heads, and what a group of heads does."""
    state = draw_fields(state, (EffectsState.ablation, EffectsState.kept))
    state = state.updated(other_texts=draw(EffectsState.other_texts, state))
    notes = st.container()
    head_set = result_so_far(partial(smallest_head_set, state), *set_key(state), describe=_describe)
    notes.html(html.summary(set_sentence(state, head_set), role="status") + html.note(ends_sentence(state, head_set)))
    if (whole := jobs.finished(*set_key(state))) is not None:
        quantities.publish(partial(set_quantities, whole))
    show_grid(set_chart(state, head_set), "effects-set", state)
    names = [EffectsState.head.name_of(state, head) for head in head_set.heads]
    parameter = EffectsState.group.parameter
    address = own_address("effects", (parameter,), tuple((parameter, name) for name in names))
    st.html(html.note(html.anchor(_("Take these heads as a group of your own"), address)))
    _show_group(state)
    st.caption(
        _(
            "**What you are seeing.** All heads but those of the set are ablated. The search goes backward from all "
            "heads: it leaves out those that are missed least, measures again, and ends where no head can be left out "
            "alone. **What it does not say:** that no smaller set exists, or that the set is what the whole model "
            "uses. With nothing in the place of the others, later layers read what they have never read before; "
            "their mean over other texts is the more careful choice."
        )
    )


def _describe(head_set: HeadSet) -> str:
    return plural("{count} head so far.", "{count} heads so far.", len(head_set.heads), count=len(head_set.heads))


def _show_group(state: EffectsState) -> None:
    """Draws a choice of heads, and the measure without them and with them alone."""
    st.markdown(f"#### {_('A group of heads')}")
    state = state.updated(group=draw(EffectsState.group, state, placeholder=_("None"), select_all=False))
    if not state.group:
        return
    with st.spinner(_("Computing …"), show_time=True):
        effects = group_effects_of(state)
    headings = _("The model runs with"), _("measure"), _("kept")
    st.html(html.table(headings, group_rows(state, effects), class_="attnviz-table attnviz-shares"))
