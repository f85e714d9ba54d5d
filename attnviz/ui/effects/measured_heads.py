"""What the tabs of effects of heads share: what a head writes instead, and the effects so far."""

import logging
from functools import partial

import streamlit as st

from attnviz.link import Link
from attnviz.state.effects import COMPARED, HEADS, EffectsState
from attnviz.ui.effects.head_choice import draw_fields
from attnviz.ui.field_widgets import draw
from attnviz.ui.job_progress import begin_job, result_so_far
from attnviz.views.head_effects import HeadEffects, effects_key, head_effects
from attnviz.views.without_heads import effects_so_far

_LOGGER = logging.getLogger(__name__)


def choose_ablation(state: EffectsState) -> EffectsState:
    """Draws what ablated heads write instead, in which texts effects are measured, and the chosen head."""
    columns = st.columns(3, gap="small", vertical_alignment="bottom")
    state = draw_fields(state, (EffectsState.ablation, EffectsState.averages), columns)
    state = state.updated(other_texts=draw(EffectsState.other_texts, state))
    with columns[2]:
        return state.updated(head=draw(EffectsState.head, state))


def begin_measuring(link: Link) -> None:
    """Begins to measure what a link to Effects will show, unless it cannot be measured."""
    try:
        state = EffectsState.read(link)
        if state.inspect in (HEADS, COMPARED):
            begin_job(partial(head_effects, state), *effects_key(state))
    except ValueError as problem:  # which is shown where the link is opened
        _LOGGER.info("What the next step measures was not begun: %s", problem)


def measured_effects(state: EffectsState) -> HeadEffects:
    """Returns the effects that have been measured so far, and draws the progress."""
    describe = partial(effects_so_far, state)
    return result_so_far(partial(head_effects, state), *effects_key(state), describe=describe)
