"""Controls of the Lookup page: the dictionary, the query, the softness and the similarity."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import streamlit as st
import torch
from streamlit.delta_generator import DeltaGenerator

from attnviz.figures.plane import Colored
from attnviz.language import N_, _
from attnviz.lessons.checks import Quantities, row_quantities
from attnviz.lessons.lookup import SIDE, SOFTNESS, Dictionary, LookupResult, Point, look_up, lookup_mechanism
from attnviz.mechanism import Mechanism
from attnviz.scores import Additive, Cosine, Dot, General, ScaledDot, Score
from attnviz.ui import presentation, widgets
from attnviz.ui.lookup import dictionary_table
from attnviz.ui.markdown import plain
from attnviz.ui.menus import names_of

SIMILARITIES = {widgets.title(kind): kind for kind in (ScaledDot, Dot, General, Additive, Cosine)}
FORMULAS = {
    ScaledDot: "q · k / √2",
    Dot: "q · k",
    General: "(qW) · k",
    Additive: "vᵀ tanh(W_q q + W_k k)",
    Cosine: "cos(q, k)",
}
COLORINGS: dict[str, Colored] = {N_("winning key"): "key", N_("value that comes back"): "value"}
W = ((0.2, -1.0), (1.0, 0.2))  # turns a query to the right
LARGEST_W = 3.0
FIRST_QUERY: Point = (1.5, 0.5)
# Names in the session, and of all but the last in the link.
X, Y, KEY_BUTTONS = "query-x", "query-y", "ask"


@dataclass(frozen=True)
class LookupSelection:
    """A dictionary, a query, and how it is looked up."""

    dictionary: Dictionary
    query: Point
    softness: str  # a name of SOFTNESS
    score: Score
    colored_by: Colored
    gradients: bool = False  # whether the network shows them

    @property
    def mechanism(self) -> Mechanism:
        return lookup_mechanism(self.softness, self.score)

    @property
    def result(self) -> LookupResult:
        return look_up(self.dictionary, self.query, self.mechanism)

    def quantities(self) -> Quantities:
        result = self.result
        row = row_quantities(self.dictionary.words, np.array(result.weights), result.similarities)
        return row | ({} if result.result is None else {"result": result.result})


def choose_lookup(left: DeltaGenerator, right: DeltaGenerator, below: DeltaGenerator) -> LookupSelection:
    """Draws the controls in two columns, and the table of keys and values below."""
    with below:
        dictionary = dictionary_table.edit_rows()
    with left:
        query = _choose_query(dictionary)
        with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
            with presentation.control("softness"):
                softness = _choose_softness()
            gradients = st.toggle(
                _("Gradients"), key="gradients", bind="query-params",
                help=_("How much the result changes when a number changes a little, back through the "
"network."),
            )  # fmt: skip
    with right:
        menus = st.container(horizontal=True)
        weights = st.container(horizontal=True, vertical_alignment="bottom", gap="xsmall")
        with menus:
            score = _choose_similarity(weights)
            colored_by = _choose_coloring()
    return LookupSelection(dictionary, query, softness, score, colored_by, gradients)


def move_query(x: float, y: float) -> None:
    """Moves the query to a point within the plane."""
    for key, along in ((X, x), (Y, y)):
        if math.isfinite(along):
            st.session_state[key] = round(max(-SIDE, min(SIDE, along)), 2) + 0.0


def _choose_query(dictionary: Dictionary) -> Point:
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        point = [
            float(
                st.number_input(label, -SIDE, SIDE, start, 0.1, format="%.6g", key=key, bind="query-params", width=112)
            )
            for label, key, start in zip((_("Query x"), _("Query y")), (X, Y), FIRST_QUERY, strict=True)
        ]
        x, y = (round(along, 2) + 0.0 if math.isfinite(along) else 0.0 for along in point)
        equal = [i for i, entry in enumerate(dictionary.entries) if (entry.x, entry.y) == (x, y)]
        st.session_state[KEY_BUTTONS] = equal[-1] if equal else None
        with presentation.control("key", width="content"):
            st.pills(
                _("Ask for a key"), range(len(dictionary.entries)), key=KEY_BUTTONS, on_change=_ask_for_key,
                args=(dictionary,), format_func=partial(_button_label, dictionary.words),
            )  # fmt: skip
    return x, y


def _ask_for_key(dictionary: Dictionary) -> None:
    number = st.session_state[KEY_BUTTONS]
    if number is not None:
        move_query(dictionary.entries[number].x, dictionary.entries[number].y)


def _button_label(words: Sequence[str], number: int) -> str:
    """Returns a word, with its number if it is not unique."""
    word = words[number]
    return plain(f"{number + 1} · {word}" if words.count(word) > 1 else word)


def _choose_softness() -> str:
    return str(
        st.select_slider(
            _("How soft? Exact match → sharp → soft → uniform"),
            list(SOFTNESS), key="softness", bind="query-params",
            format_func=names_of("softness", SOFTNESS),
            help=_("Exact match is the dictionary. Hard gives all weight to the most similar key. T is "
"the temperature of the softmax: the higher, the softer. Uniform no longer looks at "
"the query."),
        )
    )  # fmt: skip


def _choose_similarity(weights: DeltaGenerator) -> Score:
    """Draws the menu of scores and, in `weights`, the widgets of their weights; returns the score."""
    formulas = "\n\n".join(f"**{_(name)}:** {FORMULAS[kind]}" for name, kind in SIMILARITIES.items())
    name = st.selectbox(
        _("Similarity"), list(SIMILARITIES), key="similarity", bind="query-params", help=formulas,
        format_func=names_of("similarity", SIMILARITIES),
    )  # fmt: skip
    kind = SIMILARITIES[name]
    if kind is General:
        with weights:
            matrix = [[_choose_weight(row, column) for column in (1, 2)] for row in (1, 2)]
            st.caption(_("qW, the query in the key space, is compared."), width=150)
        return General(torch.tensor(matrix, dtype=torch.float64))
    if kind is Additive:
        with weights:
            limits = {"min_value": 0, "max_value": 9999, "value": 2}
            seed = widgets.whole_number(_("Seed of its weights"), **limits, key="seed", bind="query-params", width=160)
            st.caption(_("W_q, W_k and v are drawn by chance; training would set them."), width=260)
        return Additive(seed=seed)
    return kind()


def _choose_weight(row: int, column: int) -> float:
    key, start = f"w{row}{column}", W[row - 1][column - 1]
    label = f"W{' ₁₂'[row]}{' ₁₂'[column]}"
    weight = st.number_input(
        label, -LARGEST_W, LARGEST_W, start, 0.1, format="%.6g", key=key, bind="query-params", width=80
    )
    return weight if math.isfinite(weight) else start


def _choose_coloring() -> Colored:
    name = st.selectbox(
        _("Color the plane by"),
        list(COLORINGS),
        key="color",
        bind="query-params",
        format_func=names_of("color", COLORINGS),
        help=_("What every other query would get: which key has most of its weight, or which value comes back."),
    )
    return COLORINGS[str(name)]
