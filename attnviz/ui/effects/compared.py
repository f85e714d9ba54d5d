"""The tab that compares weight, share and effect of each head, and says why they differ."""

from collections.abc import Sequence
from functools import partial

import numpy as np
import streamlit as st

from attnviz.effects.ablation import Head
from attnviz.language import _, in_sentence
from attnviz.page import html
from attnviz.state.effects import WEIGHT, EffectsState
from attnviz.ui import quantities
from attnviz.ui.blocks import draw_part
from attnviz.ui.chart import chart
from attnviz.ui.effects.head_choice import draw_fields, head_link
from attnviz.ui.effects.measured_heads import choose_ablation, measured_effects
from attnviz.ui.field_widgets import set_field_value
from attnviz.ui.job_progress import result_so_far
from attnviz.views.compared_heads import ComparedHeads, Reasons, compared_heads, reasons, reasons_key
from attnviz.views.effect_grid import EffectGrid
from attnviz.views.effect_sentences import measure_sentence
from attnviz.views.effects import compared_quantities
from attnviz.views.without_heads import chosen_head

LISTED = 5  # heads, with the reasons that are tested
HEIGHT = 420


def show(state: EffectsState) -> None:
    """Draws heads as points of two numbers, the heads of which they disagree most, with reasons, and the chosen one."""
    state = choose_ablation(state)
    state = draw_fields(state, (EffectsState.across, EffectsState.up, EffectsState.without_first))
    notes = st.container()
    effects = measured_effects(state)
    with st.spinner(_("Computing …"), show_time=True):
        compared = compared_heads(state, effects)
    notes.html(html.summary(measure_sentence(state, effects.own), role="status"))
    if np.isnan(compared.values[WEIGHT]).all():
        notes.caption(_("Where the heads of this model look is not known here, so they have no weight."))
    if effects.is_complete:
        quantities.publish(partial(compared_quantities, state, effects))
    farthest = compared.farthest(LISTED) if effects.is_complete else []
    shown = state.head or next(iter(farthest), None)
    left, right = st.columns([0.56, 0.44], gap="medium")
    with left:
        chart(
            compared.chart(shown), "effects-compared", height=HEIGHT,
            on_click=lambda point, _column: set_field_value(EffectsState.head, compared.places[point], state),
        )  # fmt: skip
    with right:
        if shown is not None:
            draw_part("effects", state, chosen_head(state, shown, EffectGrid(state.run, effects)))
            if shown not in farthest and (sentences := _tested(compared, (shown,))[0]):
                st.html(html.paragraphs(sentences))
    if farthest:
        _show_farthest(compared, farthest)
    st.caption(
        _(
            "**What you are seeing.** A weight says where a head looks, a share what it writes to the measure "
            "directly, an effect what changes without it. If nothing else changed without the head, its effect would "
            "be minus its share. **What it does not say:** a reason is what was found in this text by running the "
            "model without the head; there may be others."
        )
    )


def _show_farthest(compared: ComparedHeads, heads: Sequence[Head]) -> None:
    """Draws the heads whose numbers disagree most, and why."""
    state = compared.state
    title = _("Where {across} and {up} disagree most", across=in_sentence(state.across), up=in_sentence(state.up))
    st.markdown(f"#### {title}")

    place = st.container()
    tested = _tested(compared, heads)
    rows: list[tuple[object, ...]] = []
    for head, sentences in zip(heads, tested, strict=True):
        numbers = [compared.text(name, head) for name in compared.values]
        rows += [(head_link(state, compared.name(head), head), compared.word(head), *numbers)]
        rows += [("", html.paragraphs(sentences))] if sentences else []
    headings = (_("Head"), _("looks at"), *map(_, compared.values))
    place.html(html.table(headings, rows, class_="attnviz-table attnviz-shares"))


def _tested(compared: ComparedHeads, heads: Sequence[Head]) -> list[tuple[str, ...]]:
    """Returns the reasons of heads that have been found so far, and draws the progress."""

    def describe(tested: list[Reasons]) -> str:
        return _("The reasons of {done} of {heads} heads so far.", done=len(tested), heads=len(heads))

    tested = result_so_far(partial(reasons, compared, heads), *reasons_key(compared.state, heads), describe=describe)
    sentences = {each.head: each.sentences for each in tested}
    return [sentences.get(head, ()) for head in heads]
