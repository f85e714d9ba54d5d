"""The Needle tab: a fact hidden in a long text, and how much of the question's attention each head gives to it."""

from collections.abc import Sequence
from functools import partial

import numpy as np
import streamlit as st

from attnviz.analysis.needle import PassageMass, passage_mass
from attnviz.figures.bands import add_bands
from attnviz.formatting import number
from attnviz.language import N_, _
from attnviz.page import html
from attnviz.sources.haystack import Haystack
from attnviz.state.models import START, ModelSelection, ModelsState
from attnviz.ui import cache, viewport_sliders
from attnviz.ui.chart import chart
from attnviz.ui.field_widgets import draw
from attnviz.ui.markdown import plain
from attnviz.ui.models import head_table
from attnviz.views.haystack_layers import STEP, HaystackLayers, find_needle, most_words
from attnviz.views.selected_maps import HeadMap, selected_map

MASS, UNIFORM = N_("Mass on the fact"), N_("× uniform")  # columns
HEIGHT, WIDTH = 470, 120  # of the map and the table, and of a column


def show(selection: ModelSelection) -> None:
    """Draws the controls of the text, the heads by their mass on the fact, and the map of the selected head. Raises
    ValueError if the model cannot read the text."""
    try:
        haystack = _choose_haystack(selection)
    except ValueError as problem:
        st.info(plain(str(problem)))
        return
    example = find_needle(selection.source, haystack)
    compute = partial(passage_mass, example.layers, example.question, example.needle)
    masses = cache.once(compute, "needle", example.source)
    st.html(
        html.paragraphs(
            [_("Hidden in the text: “{fact}” At its end: “{question}”", fact=haystack.fact, question=haystack.question)]
        )
    )
    left, right = st.columns([0.44, 0.56], gap="medium")
    with left:
        _show_table(example, masses, selection)
    with right:
        _show_map(example, masses, selection)
    with st.expander(_("The text")):
        st.text(haystack.text)


def _choose_haystack(selection: ModelSelection) -> Haystack:
    """Draws the sliders of the text. Raises ValueError if the model reads no text, or too little."""
    most = most_words(selection.source)
    places = st.columns(2, gap="medium")
    with places[0]:
        words = draw(ModelsState.needle_words, None, st.slider, max_value=most, value=min(START.words, most), step=STEP)
    with places[1]:
        depth = draw(ModelsState.needle_depth, None, st.slider, step=5, format="%d%%")
    return Haystack(int(words), int(depth))


def _show_table(example: HaystackLayers, masses: PassageMass, selection: ModelSelection) -> None:
    """Draws all heads, the largest mass first; a click on one opens it."""
    order = masses.mass.argsort(descending=True, stable=True).tolist()
    heads = [(int(masses.layers[i]), int(masses.heads[i])) for i in order]
    mass = masses.mass[order].numpy()
    here = next((i for i, layer in enumerate(example.layers) if layer.name == selection.layer.name), -1)
    columns = {
        MASS: st.column_config.ProgressColumn(
            _(MASS),
            width=WIDTH,
            format="%.3f",
            min_value=0.0,
            max_value=float(mass.max(initial=0)) or 1.0,
            help=_("How much of its attention the question gives to the fact, averaged over the question’s tokens."),
        ),
        UNIFORM: st.column_config.NumberColumn(
            _(UNIFORM),
            width=84,
            format="%.1f×",
            help=_("1 is what a head gives to the fact if it attends to all tokens equally."),
        ),
    }
    head_table.show(
        example.layers, heads, (here, selection.head),
        {MASS: mass, UNIFORM: mass / np.maximum(masses.uniform[order].numpy(), 1e-9)},
        columns, "needle-table", height=HEIGHT, alt=_("Heads by their mass on the fact"),
    )  # fmt: skip


def _show_map(example: HaystackLayers, masses: PassageMass, selection: ModelSelection) -> None:
    """Draws the selected head, with the rows and columns of the fact and the rows of the question."""
    try:
        here = example.selected(selection)
    except ValueError as problem:
        st.info(plain(str(problem)))
        return
    index, head_map = here.index, selected_map(here)
    picture = head_map.chart(largest=selection.colors.end([head_map.weights]))
    needle_rows, needle_columns = _band(head_map.queries, example.needle), _band(head_map.keys, example.needle)
    rows = [needle_rows, _band(head_map.queries, example.question)]
    add_bands(picture.figure, head_map.weights.shape, rows=rows, columns=[needle_columns])
    sentence = _sentence(masses, index, selection, head_map)
    picture = picture.with_about(description=sentence, hint=_("Marked: the fact, and the question’s rows."))
    chart(picture, "needle-map", title=head_map.title, height=HEIGHT, on_zoom=viewport_sliders.on_zoom(head_map))
    st.html(html.summary(sentence))


def _band(positions: Sequence[int], passage: slice) -> tuple[int, int]:
    """Returns the first and last row or column of a passage among those that are shown."""
    shown = [i for i, position in enumerate(positions) if passage.start <= position < passage.stop]
    return shown[0], shown[-1]


def _sentence(masses: PassageMass, index: int, selection: ModelSelection, head_map: HeadMap) -> str:
    if not isinstance(selection.head, int):
        return _("{title}: choose one head to see its mass on the fact.", title=head_map.title)
    here = int(((masses.layers == index) & (masses.heads == selection.head)).nonzero()[0, 0])
    mass, uniform = float(masses.mass[here]), float(masses.uniform[here])
    return _(
        "{title}: the question gives {mass} of its attention to the fact; spread over all tokens "
        "alike, it would be {uniform}.",
        title=head_map.title,
        mass=number(mass),
        uniform=number(uniform),
    )
