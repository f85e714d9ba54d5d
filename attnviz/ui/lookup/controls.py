"""Controls of the Lookup page: the dictionary, the query, the softness and the similarity."""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz.language import _
from attnviz.lookup.dictionary import SIDE, Dictionary, Point
from attnviz.scores import Additive, Cosine, Dot, General, ScaledDot
from attnviz.state.lookup import SIMILARITIES, LookupState
from attnviz.ui import presentation
from attnviz.ui.field_widgets import draw
from attnviz.ui.lookup import dictionary_table
from attnviz.ui.markdown import plain
from attnviz.ui.session_values import widget_callback, write_widget
from attnviz.ui.widget_values import set_field_value

FORMULAS = {
    ScaledDot: "q · k / √2",
    Dot: "q · k",
    General: "(qW) · k",
    Additive: "vᵀ tanh(W_q q + W_k k)",
    Cosine: "cos(q, k)",
}
QUERY = LookupState.query_x, LookupState.query_y
WEIGHTS = LookupState.w11, LookupState.w12, LookupState.w21, LookupState.w22, LookupState.seed
KEY_BUTTONS = "ask"


def choose_lookup(left: DeltaGenerator, right: DeltaGenerator, below: DeltaGenerator) -> LookupState:
    """Draws the controls in two columns, and the table of keys and values below."""
    with below:
        table = dictionary_table.edit_rows()
    with left:
        x, y = _choose_query(table)
        with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
            with presentation.control("softness"):
                softness = draw(LookupState.softness, widget=st.select_slider)
            gradients = draw(LookupState.gradients)
    with right:
        menus = st.container(horizontal=True)
        weights = st.container(horizontal=True, vertical_alignment="bottom", gap="xsmall")
        with menus:
            score = _choose_similarity(weights)
            color = draw(LookupState.color)
    return LookupState(
        table=table, query_x=x, query_y=y, softness=softness, gradients=gradients, color=color, **score
    )  # fmt: skip


def move_query(x: float, y: float) -> None:
    """Moves the query to a point within the plane."""
    for field, along in zip(QUERY, (x, y), strict=True):
        if math.isfinite(along):
            set_field_value(field, field.rounded(max(-SIDE, min(SIDE, along))))


def _choose_query(dictionary: Dictionary) -> Point:
    def ask_for(number: int) -> None:
        move_query(dictionary.entries[number].x, dictionary.entries[number].y)

    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        x, y = (draw(field, width=112) for field in QUERY)
        equal = [i for i, entry in enumerate(dictionary.entries) if (entry.x, entry.y) == (x, y)]
        write_widget(KEY_BUTTONS, equal[-1] if equal else None)
        with presentation.control("key", width="content"):
            st.pills(
                _("Ask for a key"), range(len(dictionary.entries)), key=KEY_BUTTONS,
                on_change=widget_callback(KEY_BUTTONS, ask_for), format_func=partial(_button_label, dictionary.words),
            )  # fmt: skip
    return x, y


def _button_label(words: Sequence[str], number: int) -> str:
    """Returns a word, with its number if it is not unique."""
    word = words[number]
    return plain(f"{number + 1} · {word}" if words.count(word) > 1 else word)


def _choose_similarity(weights: DeltaGenerator) -> dict[str, Any]:
    """Draws the menu of scores and, in `weights`, the widgets of their weights; returns the values of both."""
    formulas = "\n\n".join(f"**{_(name)}:** {FORMULAS[kind]}" for name, kind in SIMILARITIES.items())
    state = LookupState.partial(similarity=draw(LookupState.similarity, help=formulas))
    with weights:
        values = {field.name: draw(field, state, width=160 if field is LookupState.seed else 80) for field in WEIGHTS}
        if state.similarity is General:
            st.caption(_("qW, the query in the key space, is compared."), width=150)
        if state.similarity is Additive:
            st.caption(_("W_q, W_k and v are drawn at random; training would set them."), width=260)
    return {**state.values, **values}
