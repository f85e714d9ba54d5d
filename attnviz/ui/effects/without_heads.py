"""The tab of heads and MLPs: what the measure becomes without each of them, and what the chosen head does."""

from functools import partial

import streamlit as st

from attnviz.language import _
from attnviz.page import html
from attnviz.state.effects import EffectsState
from attnviz.ui import cache, quantities
from attnviz.ui.effects.head_choice import head_link, show_grid
from attnviz.ui.effects.head_detail import show_chosen_head
from attnviz.ui.effects.measured_heads import choose_ablation, measured_effects
from attnviz.views.effect_grid import EffectGrid
from attnviz.views.effect_sentences import effect_colors, measure_notes, measure_sentence, progress_sentence
from attnviz.views.effects import heads_quantities
from attnviz.views.head_effects import head_estimates

LARGEST = 10  # effects in the table


def show(state: EffectsState) -> None:
    """Draws what heads are replaced by, the grid of effects, the largest of them, and the chosen head."""
    state = choose_ablation(state)
    notes = st.container()
    subject = state.source, state.metric
    good = cache.or_last_good("effects of heads", subject, partial(_measurable, state), lambda: None, notes)
    if good is None:
        return
    state = good.updated(head=state.head)
    effects = measured_effects(state)
    estimated = None if effects.is_complete else head_estimates(state)
    grid = EffectGrid(state.run, effects, estimated)
    with notes:
        lines = [progress_sentence(effects, estimated), *measure_notes(state, effects)]
        st.html(html.summary(measure_sentence(state, effects.own), role="status") + html.join(map(html.note, lines)))
    largest = grid.largest(LARGEST)
    shown = state.head or next((head for _name, head, _effect in largest if head is not None), None)
    if effects.is_complete:
        quantities.publish(partial(heads_quantities, state, effects))
    show_grid(grid.chart(shown, *effect_colors(state)), "effects-grid", state)
    left, right = st.columns([0.4, 0.6], gap="medium")
    with left:
        rows = [(head_link(state, name, head), effect) for name, head, effect in largest]
        st.html(html.table((_("Without"), _("effect")), rows, class_="attnviz-table attnviz-shares"))
    with right:
        if shown is not None:
            show_chosen_head(state, shown, grid)


def _measurable(state: EffectsState) -> EffectsState:
    """Returns a state whose effects are measured. Raises ValueError if they cannot be."""
    measured_effects(state)
    return state
