"""The tokens of two texts, one below the other where they belong together, and menus that correct it."""

import streamlit as st

from attnviz.formatting import numbered_tokens
from attnviz.language import _, plural
from attnviz.page import html
from attnviz.state.corrected_alignment import add_correction
from attnviz.state.effects import EffectsState
from attnviz.ui.field_widgets import set_field_value
from attnviz.ui.session_values import widget_callback
from attnviz.views.token_columns import TokenColumn, token_columns

NO_TOKEN = -1


def show_alignment(state: EffectsState) -> None:
    """Draws the tokens of the clean and of the corrupted text, and menus that correct which belong together; nothing
    for a text that cannot be read."""
    try:
        columns = token_columns(state)
    except ValueError:  # the patching says why
        return
    names = html.element("div", html.element("b", _("clean")), html.element("b", _("corrupted")))
    st.html(html.element("div", names, *map(_column, columns), class_="attnviz-aligned", tabindex=0))
    with st.popover(_("Correct the alignment"), icon=":material/swap_vert:", key="effects-alignment"):
        _show_menus(state)


def _column(column: TokenColumn) -> html.Markup:
    texts = [html.token(text) if text is not None else "–" for text in (column.clean, column.corrupted)]
    return html.element("div", *(html.element("span", text) for text in texts), class_=f"attnviz-{column.kind}")


def _show_menus(state: EffectsState) -> None:
    """Draws menus of a token of the corrupted text and of that which it belongs to."""
    clean, corrupted = state.run.source, state.corrupted_inputs.source.tokens
    sources, targets = (numbered_tokens(range(len(tokens)), tokens) for tokens in (clean, corrupted))
    target = st.selectbox(_("Token of the corrupted text"), range(len(targets)), format_func=targets.__getitem__,
                          key="effects-target")  # fmt: skip
    source = {other: own for own, other in state.alignment}.get(target, NO_TOKEN)
    key = f"effects-source-{target}-{source}"  # another menu where the pair is another

    def correct(chosen: int) -> None:
        added = add_correction(state.corrections, target, None if chosen == NO_TOKEN else chosen)
        set_field_value(EffectsState.corrections, added)

    st.selectbox(
        _("belongs to"), range(NO_TOKEN, len(sources)), index=source - NO_TOKEN, key=key,
        on_change=widget_callback(key, correct),
        format_func=lambda position: _("no token") if position == NO_TOKEN else sources[position],
    )  # fmt: skip
    if count := len(state.corrections):
        text = plural("Undo {count} correction", "Undo {count} corrections", count, count=count)
        st.button(text, on_click=set_field_value, args=(EffectsState.corrections, ()))
