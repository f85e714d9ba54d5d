"""The tab of circuits: what a head writes, which keys it prefers, and with which heads it composes."""

from collections.abc import Callable
from dataclasses import replace

import streamlit as st

from attnviz.effects.head_circuits import Composition
from attnviz.language import N_, _
from attnviz.page import html
from attnviz.state.effects import EffectsState
from attnviz.ui import quantities
from attnviz.ui.effects.head_choice import draw_fields, head_link, show_grid
from attnviz.ui.field_widgets import draw
from attnviz.ui.markdown import plain
from attnviz.views.effects import circuit_quantities
from attnviz.views.head_circuits import CircuitsView, TokenRow, circuits_view

PARTS: dict[Composition, str] = {
    "key": N_("is a part of the key of"), "query": N_("is a part of the query of"),
    "value": N_("is a part of the value of"),
}  # fmt: skip


def show(state: EffectsState) -> None:
    """Draws the copying scores of all heads, and the circuits of the chosen one."""
    place, *places = st.columns(3, gap="small", vertical_alignment="bottom")
    state = draw_fields(state, (EffectsState.reads, EffectsState.token_vectors), places)
    with st.spinner(_("Computing …"), show_time=True):
        head = circuits_view(state).head
    with place:  # of which the one that opens first is known by its circuits
        shown = circuits_view(state.updated(head=draw(EffectsState.head, state, opening=head)))
    reasons: set[str] = set()
    _or_reason(reasons, lambda: _show_summary(shown))
    _or_reason(reasons, lambda: show_grid(shown.copying_chart(), "effects-copying", state))
    left, right = st.columns(2, gap="medium")
    with left:
        _or_reason(reasons, lambda: _show_written(shown))
    with right:
        _or_reason(reasons, lambda: _show_keys(shown))
    _show_composition(shown, state)
    st.caption(
        _(
            "**What you are seeing.** A head writes with its OV circuit, W_O W_V, and chooses what it looks at with "
            "its QK circuit, W_Qᵀ W_K: both are known from the weights, without a text. Tokens are normalized as the "
            "model does it, and numbers are compared with those of all tokens (SD: standard deviations from their "
            "mean). **What it does not say:** in a text, a position holds more than its token, and whether the head "
            "looks at it depends on all others."
        )
    )


def _or_reason(reasons: set[str], show_part: Callable[[], object]) -> None:
    """Draws a part of the tab, or why it is not known, if that is not among the reasons before it."""
    try:
        show_part()
    except ValueError as problem:
        if str(problem) not in reasons:
            st.caption(plain(str(problem)))
        reasons.add(str(problem))


def _show_summary(shown: CircuitsView) -> None:
    st.html(html.summary(shown.written_sentence, role="status") + html.note(shown.copying_sentence))


def _show_written(shown: CircuitsView) -> None:
    title = _("When it looks at “{word}”, it raises and lowers", word=shown.word)
    _show_tokens(title, (_("raises"), _("lowers")), shown.raised, shown.lowered)


def _show_keys(shown: CircuitsView) -> None:
    title = _("When it looks from “{word}”, it prefers and avoids", word=shown.word)
    _show_tokens(title, (_("prefers"), _("avoids")), shown.preferred, shown.avoided)


def _show_tokens(title: str, names: tuple[str, str], most: list[TokenRow], least: list[TokenRow]) -> None:
    """Draws the first and the last tokens side by side, with their standard deviations from the mean."""
    rows = [
        (html.token(first.token), first.value, html.token(last.token), last.value)
        for first, last in zip(most, least, strict=True)
    ]
    st.markdown(f"#### {plain(title)}")
    st.html(html.table((names[0], _("SD"), names[1], _("SD")), rows, class_="attnviz-table attnviz-shares"))


def _show_composition(shown: CircuitsView, state: EffectsState) -> None:
    """Draws with which heads the head composes."""
    st.markdown(f"#### {plain(_('With which heads {head} works together', head=shown.head_name))}")
    state = draw_fields(state, (EffectsState.composition,))
    shown = replace(shown, kind=state.composition)
    quantities.publish(lambda: circuit_quantities(shown))
    show_grid(shown.composition_chart(), "effects-composition", state)
    headings = _("What this head writes"), _(PARTS[state.composition]), _("above random")
    rows = [
        (*(head_link(state, shown.name(head), head) for head in (row.writer, row.reader)), row.above_random)
        for row in shown.compositions
    ]
    table = html.table(headings, rows, class_="attnviz-table attnviz-shares")
    st.html(table + html.note(shown.composition_note))
