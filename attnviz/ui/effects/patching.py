"""The tab of patching: what a corrupted text recovers with parts of the run of the clean text."""

from functools import partial

import streamlit as st

from attnviz.language import _
from attnviz.page import html
from attnviz.server import jobs
from attnviz.state.effects import EffectsState
from attnviz.ui import cache, presentation, quantities
from attnviz.ui.chart import chart
from attnviz.ui.effects.head_choice import head_link, show_grid
from attnviz.ui.effects.token_alignment import show_alignment
from attnviz.ui.field_widgets import draw, draw_hidden_value
from attnviz.ui.job_progress import result_so_far
from attnviz.ui.markdown import plain
from attnviz.views.effects import patching_quantities
from attnviz.views.patching import (
    PatchingView,
    describe,
    head_positions,
    patching_key,
    patching_view,
    paths_view,
)

LARGEST = 10  # parts in the table
TABLE = "attnviz-table attnviz-shares"


def show(state: EffectsState) -> None:
    """Draws the corrupted text with its alignment, what each part recovers, and the positions of the chosen head."""
    left, right = st.columns([0.65, 0.35], gap="small", vertical_alignment="bottom")
    with left:
        state = state.updated(corrupted=draw(EffectsState.corrupted, state))
    with right, presentation.control("patched"):
        state = state.updated(patched=draw(EffectsState.patched, state))
    state = state.updated(corrections=draw_hidden_value(EffectsState.corrections))
    show_alignment(state)
    notes = st.container()
    subject = state.source, state.metric
    good = cache.or_last_good("patching", subject, partial(_measurable, state), lambda: None, notes)
    if good is None:
        return
    state, shown = good, _measured(good)
    with notes:
        st.html(html.summary(shown.sentence, role="status"))
    if (whole := jobs.finished(*patching_key(state))) is not None:
        quantities.publish(partial(patching_quantities, whole))
    if not shown.has_way:
        return
    if shown.is_of_heads:
        state = state.updated(head=draw(EffectsState.head, state))
        if state.head is None and shown.done == sum(state.run.heads):
            state = state.updated(head=shown.largest(1)[0][1])
    show_grid(shown.chart(state.head), "effects-patching", state, clicks=shown.is_of_heads)
    if state.patched != "residual":
        left, right = st.columns([0.4, 0.6], gap="medium")
        with left:
            st.html(_table(shown))
        if state.head is not None and shown.is_of_heads:
            with right, st.spinner(_("Computing …"), show_time=True):
                chart(head_positions(state), "effects-positions", height=200)
            _show_paths(state)
    st.caption(
        _(
            "**What you are seeing.** The model reads the corrupted text, and one part of its run is replaced by that "
            "of the clean run. At 100% the measure is that of the clean run, at 0% nothing has changed. **What it does "
            "not say:** a part that recovers much carries the difference between these two texts. What is the same in "
            "both texts does not show."
        )
    )


def _measured(state: EffectsState) -> PatchingView:
    """Returns what has been measured so far, and draws the progress."""
    return result_so_far(partial(patching_view, state), *patching_key(state), describe=describe)


def _measurable(state: EffectsState) -> EffectsState:
    """Returns a state whose parts can be patched. Raises ValueError if they cannot be."""
    _measured(state)
    return state


def _table(shown: PatchingView) -> html.Markup:
    rows = [(head_link(shown.state, name, head), share) for name, head, share in shown.largest(LARGEST)]
    return html.table((_("Taken"), _("recovers")), rows, class_=TABLE)


def _show_paths(state: EffectsState) -> None:
    """Draws what direct paths from the heads before the chosen one recover."""
    state = state.updated(received=draw(EffectsState.received, state))
    if state.received is None:
        return
    try:
        key = patching_key(state, state.head, state.received)
        shown = result_so_far(partial(paths_view, state), *key, describe=describe)
    except ValueError as problem:
        st.caption(plain(str(problem)))
        return
    grid = shown.chart(state.head).with_about(label=_("Recovered by direct paths from heads"))
    show_grid(grid, "effects-paths", state)
    text = _("Direct paths: all heads and MLPs between both write what they write in the corrupted run.")
    st.html(html.note(text) + _table(shown))
