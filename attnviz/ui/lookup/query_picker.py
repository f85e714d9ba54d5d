"""What is asked for, and how: the query, how soft the look-up is, and what similarity means."""

import math
from collections.abc import Sequence
from functools import partial

import streamlit as st
import torch
from streamlit.delta_generator import DeltaGenerator

from attnviz.lessons.lookup import NOTCHES, SIDE, Dictionary, Point
from attnviz.scores import Additive, Cosine, Dot, General, ScaledDot, Score
from attnviz.ui import widgets
from attnviz.ui.markdown import plain

SIMILARITIES = {widgets.title(kind): kind for kind in (ScaledDot, Dot, General, Additive, Cosine)}
FORMULAS = {
    ScaledDot: "q · k / √2",
    Dot: "q · k",
    General: "qᵀ W k",
    Additive: "vᵀ tanh(W_q q + W_k k)",
    Cosine: "cos(q, k)",
}
W = ((0.2, -1.0), (1.0, 0.2))  # a turn to the left
MOST_W = 3.0
X, Y = "query-x", "query-y"
BEGIN: Point = (1.5, 0.5)


def query(dictionary: Dictionary) -> Point:
    """Two numbers, from their widgets, from a key that is asked for, or from where the arrow was dropped."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        at = tuple(
            float(
                st.number_input(label, -SIDE, SIDE, begin, 0.1, format="%.6g", key=key, bind="query-params", width=112)
            )
            for label, key, begin in (("Query x", X, BEGIN[0]), ("Query y", Y, BEGIN[1]))
        )
        x, y = (round(along, 2) + 0.0 if math.isfinite(along) else 0.0 for along in at)
        equal = [i for i, entry in enumerate(dictionary.entries) if (entry.x, entry.y) == (x, y)]
        st.session_state["ask"] = equal[-1] if equal else None
        st.pills(
            "Ask for a key", range(len(dictionary.entries)), key="ask", on_change=_ask, args=(dictionary,),
            format_func=partial(_name, dictionary.words),
        )  # fmt: skip
    return x, y


def move(x: float, y: float) -> None:
    """Puts the query elsewhere."""
    for key, along in ((X, x), (Y, y)):
        if math.isfinite(along):
            st.session_state[key] = round(max(-SIDE, min(SIDE, along)), 2) + 0.0


def softness() -> str:
    """The notch of the control, a name of NOTCHES."""
    return str(
        st.select_slider(
            "From exact match over sharp to soft to uniform",
            list(NOTCHES), key="softness", bind="query-params",
            help="Exact match is the dictionary. Hard gives all weight to the most similar key. T is the temperature "
            "of the softmax: the higher, the softer. Uniform no longer looks at the query.",
        )
    )  # fmt: skip


def similarity(settings: DeltaGenerator) -> Score:
    """A score; the widgets of its weights stand in `settings`."""
    formulas = "\n\n".join(f"**{name}:** {FORMULAS[kind]}" for name, kind in SIMILARITIES.items())
    chosen = st.selectbox("Similarity", list(SIMILARITIES), key="similarity", bind="query-params", help=formulas)
    kind = SIMILARITIES[chosen]
    if kind is General:
        with settings:
            (a, b), (c, d) = ((_weight(1, 1), _weight(1, 2)), (_weight(2, 1), _weight(2, 2)))
            st.caption("W maps every key to the end of its dotted line.", width=180)
        return General(torch.tensor([[a, b], [c, d]], dtype=torch.float64))
    if kind is Additive:
        with settings:
            limits = {"min_value": 0, "max_value": 9999, "value": 2}
            seed = widgets.whole_number("Seed of its weights", **limits, key="seed", bind="query-params", width=160)
            st.caption("W_q, W_k and v are drawn by chance; training would set them.", width=260)
        return Additive(seed=seed)
    return kind()


def _weight(row: int, column: int) -> float:
    key, begin = f"w{row}{column}", W[row - 1][column - 1]
    label = f"W{' ₁₂'[row]}{' ₁₂'[column]}"
    number = st.number_input(label, -MOST_W, MOST_W, begin, 0.1, format="%.6g", key=key, bind="query-params", width=80)
    return number if math.isfinite(number) else begin


def _name(words: Sequence[str], i: int) -> str:
    """A word on a button, with its number where another one is the same."""
    return plain(f"{i + 1} · {words[i]}" if words.count(words[i]) > 1 else words[i])


def _ask(dictionary: Dictionary) -> None:
    chosen = st.session_state["ask"]
    if chosen is not None:
        move(dictionary.entries[chosen].x, dictionary.entries[chosen].y)
