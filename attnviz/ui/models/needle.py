"""The Needle tab: a fact hidden in a long text, and how much of the question's attention each head gives to it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import streamlit as st

from attnviz.analysis.needle import PassageMass, find_passage, passage_mass
from attnviz.analysis.work import check_heads
from attnviz.figures.bands import add_bands
from attnviz.formatting import grouped, number
from attnviz.language import N_, _, option_name
from attnviz.layer import Layer
from attnviz.sources.haystack import LEAST_WORDS, Haystack
from attnviz.ui import cache, html
from attnviz.ui.chart import chart
from attnviz.ui.head_controls import open_head
from attnviz.ui.head_map import HeadMap, selected_map
from attnviz.ui.markdown import plain
from attnviz.ui.models.model_source import ModelSource
from attnviz.ui.models.selection import ModelSelection
from attnviz.ui.viewport import WHOLE

MOST_WORDS = 700  # so that the map has about a thousand tokens at most, and is drawn whole
WORDS_A_TOKEN = 0.75
STEP = 20  # words
START = Haystack()
LENGTH, DEPTH = "needle-words", "needle-depth"  # in the link
TABLE = "needle-table"
MASS, UNIFORM = N_("Mass on the fact"), N_("× uniform")  # columns
HEIGHT, WIDTH = 470, 120  # of the map and the table, and of a column
TEXT_ONLY = N_("A needle is hidden in a text, and this model sees pictures. Choose a model that reads text.")
SHORT = N_("{name} reads at most {limit} tokens, too few for a text with a fact hidden in it. Choose another model.")


@dataclass(frozen=True, eq=False)
class HaystackLayers:
    """The layers of a haystack through the model, and where the fact and the question stand among its tokens."""

    source: ModelSource
    layers: Sequence[Layer]
    needle: slice
    question: slice


def show(selection: ModelSelection) -> None:
    """Draws the controls of the text, the heads by their mass on the fact, and the map of the selected head."""
    model = selection.model
    most = min(MOST_WORDS, int(model.limit * WORDS_A_TOKEN)) // STEP * STEP
    if model.modality != "text" or most <= LEAST_WORDS:
        limit = _(SHORT).format(name=model.name, limit=grouped(model.limit))
        st.info(plain(_(TEXT_ONLY) if model.modality != "text" else limit))
        return
    haystack = _choose_haystack(most)
    try:
        example = _find(selection, haystack)
        masses = _masses(example)
    except ValueError as problem:
        st.error(plain(str(problem)), icon=":material/error:")
        return
    st.html(
        html.paragraphs(
            [
                _("Hidden in the text: “{fact}” At its end: “{question}”").format(
                    fact=haystack.fact, question=haystack.question
                )
            ]
        )
    )
    left, right = st.columns([0.44, 0.56], gap="medium")
    with left:
        _show_table(example, masses, selection)
    with right:
        _show_map(example, masses, selection)
    with st.expander(_("The text")):
        st.text(haystack.text)


def _choose_haystack(most: int) -> Haystack:
    if st.session_state.get(LENGTH, 0) > most:  # chosen for a model that reads more
        st.session_state[LENGTH] = most
    places = st.columns(2, gap="medium")
    with places[0]:
        words = st.slider(
            _("Words in the text"), LEAST_WORDS, most, min(START.words, most), STEP, key=LENGTH, bind="query-params"
        )
    with places[1]:
        depth = st.slider(
            _("Depth of the fact"), 0, 100, START.depth, 5, format="%d%%", key=DEPTH, bind="query-params",
            help=_("At 0% it is at the beginning of the text, at 100% before the question."),
        )  # fmt: skip
    return Haystack(words, depth)


def _find(selection: ModelSelection, haystack: Haystack) -> HaystackLayers:
    """Returns the layers in which all tokens of the haystack attend to each other. Raises ValueError if there are none.

    The decoder of an encoder–decoder model gets the question, so that it does not write an answer.
    """
    pair = haystack.question if selection.model.is_encoder_decoder else ""
    source = replace(selection.source, text=haystack.text, pair=pair).run()
    layers = source.layers()
    tokens = layers[0].inputs.key_tokens
    own = [layer for layer in layers if layer.inputs.query_tokens == layer.inputs.key_tokens == tokens]
    check_heads(own, [layer.mechanism for layer in own])
    return HaystackLayers(source, own, find_passage(tokens, haystack.fact), find_passage(tokens, haystack.question))


def _masses(example: HaystackLayers) -> PassageMass:
    return cache.once(lambda: passage_mass(example.layers, example.question, example.needle), "needle", example.source)


def _show_table(example: HaystackLayers, masses: PassageMass, selection: ModelSelection) -> None:
    """Draws all heads, the largest mass first; a click on one opens it."""
    order = masses.mass.argsort(descending=True, stable=True).tolist()
    heads = [(int(masses.layers[i]), int(masses.heads[i])) for i in order]
    mass = masses.mass[order].numpy()
    frame = pd.DataFrame(
        {
            "Layer": [option_name(example.layers[index].name) for index, head in heads],
            "Head": [head for index, head in heads],
            MASS: mass,
            UNIFORM: mass / np.maximum(masses.uniform[order].numpy(), 1e-9),
        }
    )
    opened = selection.layer.name, selection.head
    row = next((i for i, (index, head) in enumerate(heads) if (example.layers[index].name, head) == opened), None)

    def select() -> None:
        if clicked := st.session_state[TABLE]["selection"]["rows"]:
            open_head(example.layers, *heads[clicked[0]])

    st.session_state[TABLE] = {"selection": {"rows": [] if row is None else [row], "columns": [], "cells": []}}
    st.dataframe(
        frame,
        hide_index=True,
        key=TABLE,
        height=HEIGHT,
        on_select=select,
        selection_mode="single-row",
        column_config={
            "Layer": st.column_config.TextColumn(_("Layer"), width=84),
            "Head": st.column_config.NumberColumn(_("Head"), width=48),
            MASS: st.column_config.ProgressColumn(
                _(MASS),
                width=WIDTH,
                format="%.3f",
                min_value=0.0,
                max_value=float(mass.max(initial=0)) or 1.0,
                help=_(
                    "How much of its attention the question gives to the fact, averaged over the question’s tokens."
                ),
            ),
            UNIFORM: st.column_config.NumberColumn(
                _(UNIFORM),
                width=84,
                format="%.1f×",
                help=_("1 is what a head gives to the fact if it attends to all tokens equally."),
            ),
        },
        alt=_("Heads by their mass on the fact"),
    )


def _show_map(example: HaystackLayers, masses: PassageMass, selection: ModelSelection) -> None:
    """Draws the selected head, with the rows and columns of the fact and the rows of the question."""
    index = next((i for i, layer in enumerate(example.layers) if layer.name == selection.layer.name), None)
    if index is None:
        st.info(
            plain(
                _("The text does not attend to itself in {name}. Open a head of the table.").format(
                    name=selection.layer.name
                )
            )
        )
        return
    mechanisms = [layer.mechanism for layer in example.layers]
    here = replace(
        selection, source=example.source, layers=example.layers, mechanisms=mechanisms, index=index, viewport=WHOLE
    )
    head_map = selected_map(here)
    picture = head_map.chart(largest=selection.colors.end([head_map.weights]))
    needle_rows, needle_columns = _band(head_map.queries, example.needle), _band(head_map.keys, example.needle)
    rows = [needle_rows, _band(head_map.queries, example.question)]
    add_bands(picture.figure, head_map.weights.shape, rows=rows, columns=[needle_columns])
    chart(
        picture,
        "needle-map",
        title=head_map.title,
        label=_("Attention weights of the opened head"),
        name=_("attention {title} needle").format(title=head_map.title),
        description=_sentence(masses, index, selection, head_map),
        height=HEIGHT,
        hint=_("Marked: the fact, and the question’s rows."),
        on_view=head_map.on_view,
    )
    st.html(html.summary(_sentence(masses, index, selection, head_map)))


def _band(positions: Sequence[int], passage: slice) -> tuple[int, int]:
    """Returns the first and last row or column of a passage among those that are shown."""
    shown = [i for i, position in enumerate(positions) if passage.start <= position < passage.stop]
    return shown[0], shown[-1]


def _sentence(masses: PassageMass, index: int, selection: ModelSelection, head_map: HeadMap) -> str:
    if not isinstance(selection.head, int):
        return _("{title}: choose one head to see its mass on the fact.").format(title=head_map.title)
    here = int(((masses.layers == index) & (masses.heads == selection.head)).nonzero()[0, 0])
    mass, uniform = float(masses.mass[here]), float(masses.uniform[here])
    return _(
        "{title}: the question gives {mass} of its attention to the fact; spread over all tokens "
        "alike, it would be {uniform}."
    ).format(title=head_map.title, mass=number(mass), uniform=number(uniform))
