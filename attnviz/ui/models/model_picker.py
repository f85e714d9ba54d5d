"""Controls of the model and its input on the Models page."""

from functools import partial

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz.language import _
from attnviz.server.page_runs import PageEnd
from attnviz.sources import Model
from attnviz.sources.model import load_model
from attnviz.sources.upload import File
from attnviz.state.models import ModelsState
from attnviz.trace import Trace
from attnviz.ui import cache, model_input, model_menu, presentation
from attnviz.ui.field_widgets import draw

LAST = "model source"  # under which the last source that could be read is kept


def choose_example(notes: DeltaGenerator) -> tuple[Model, Trace]:
    """Draws the widgets of the model and its input; returns the source and its layers.

    If the model cannot be loaded, the reason is shown in `notes`, and the page ends. If it cannot read the input, the
    last good source of the same model is returned.
    """
    with st.sidebar:
        name = model_menu.choose_model(ModelsState.model)
        facts = st.container()
    place = presentation.control("input", horizontal=True, gap="small")
    model_menu.load_or_end(name, notes)
    with place:
        text, pair, picture = _choose_input(name, facts)
    typed = Model(text, name, pair, picture)
    with notes, st.spinner(_("Reading …"), show_time=True):
        readable = read_or_last(LAST, typed, typed.own_example, notes)
    if readable is None:
        raise PageEnd
    source, layers = readable
    model_input.show_model(source, layers, facts, notes)
    return source, layers


def read_or_last(key: str, source: Model, example: Model, notes: DeltaGenerator) -> tuple[Model, Trace] | None:
    """Returns a source with its layers. If they cannot be made, the last good one of the same model that still can, or
    the example if it is of that model; else None."""

    def read() -> Model:
        source.layers()
        return source

    first = example if example.subject == source.subject else None
    readable = cache.or_last_good(key, source.subject, read, lambda: first, notes)
    if readable is None:
        return None
    try:
        return readable, readable.layers()
    except ValueError as problem:  # its folder has been removed or replaced
        cache.show_problem(problem, notes)
        return None


def _choose_input(name: str, facts: DeltaGenerator) -> tuple[str, str, File | None]:
    """Draws the widgets of the model's inputs; returns a text, a second one, and a picture."""
    text, pair, model = "", "", load_model(name)
    if "text" in model.modality:
        text = draw(ModelsState.text, ModelsState.partial(model=name))
        pair = model_input.choose_pair(partial(draw, ModelsState.second), model)
    if "picture" not in model.modality:
        return text, pair, None
    with facts:
        return text, pair, model_input.choose_picture(partial(draw, ModelsState.picture), model)
