"""A page about a head of a source: its controls, and its blocks below them."""

from collections.abc import Callable
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz.base.language import _
from attnviz.page.blocks import Block
from attnviz.page.fields import ModelField, WidgetPlace
from attnviz.page.head_state import HeadState
from attnviz.page.long_map_state import LongMapState
from attnviz.pages.catalogue import BLOCKS
from attnviz.ui import cache, model_input, presentation, source_picker
from attnviz.ui.blocks import draw_blocks
from attnviz.ui.field_widgets import draw
from attnviz.ui.heading import page_heading
from attnviz.ui.lesson_strip import named_controls
from attnviz.ui.model_menu import choose_model
from attnviz.ui.page_state import current_state, draw_field, draw_hidden_fields
from attnviz.ui.server.page_runs import PageEnd


def show_head_page(page: str) -> None:
    """Draws a page of BLOCKS about a head. What cannot be shown is explained, and the last state that can be is
    shown."""
    kind, blocks, _words = BLOCKS[page]
    assert issubclass(kind, HeadState)
    page_heading(page)
    named = named_controls()
    is_lesson = named is not None
    long = issubclass(kind, LongMapState)
    top, place = st.container(), st.container(key="page-blocks")
    side: DeltaGenerator
    rest: DeltaGenerator
    more: DeltaGenerator
    if is_lesson:
        side = rest = more = st.expander(_("More"), key="controls")
    else:
        with st.sidebar:
            side, rest = st.container(), st.container()
            more = st.expander(_("More"), expanded=_is_in_link("more", kind), key="more")
    with side if is_lesson else top:
        source, layers, places = source_picker.choose_layers(side, more, long=long)
        name = "present-control-head" if kind.presents_controls else "head-controls"
        controls = st.container(horizontal=True, gap="small", key=name)
    in_lesson = top.container(horizontal=True, gap="small", key="in-lesson") if is_lesson else controls
    state = current_state(kind, source=source)
    shown: dict[HeadState, list[Block]] = {}

    def show() -> HeadState:
        if state.problem:
            raise ValueError(state.problem)
        shown[state] = [*blocks(state)]
        return state

    if not state.problem and state.selection.layer.locked:
        places.settings.empty()
    with place:  # for the progress of what takes time
        good: HeadState | None = cache.or_last_good(page, source.subject, show, lambda: None, places.notes)
    drawn = state if good is None or not state.problem else good
    fields = [field for field in drawn.fields if field.name in drawn.values]
    if kind.folds_controls and good is not None and not is_lesson:
        controls = controls.popover(good.selection.title, key="head-menus")
    places_of_fields = {"top": controls, "side": rest, "more": more}
    for field in fields:
        is_named = field.parameter in (named or ()) and field.place in places_of_fields
        place_of_field = in_lesson if is_named else places_of_fields.get(field.place)
        if place_of_field:
            with place_of_field:
                # Where the last good state is shown, its widgets keep what has been chosen, which it does not take.
                widget: Callable[..., Any] = _draw_second_model if isinstance(field, ModelField) else draw
                draw_field(field, drawn, widget) if drawn is state else widget(field, drawn)
    model_input.show_facts(source, layers, more)
    draw_hidden_fields(drawn)
    if good is None:
        source_picker.forget_last(long=long)
        raise PageEnd
    with place:
        presentation.show_title(good.selection.title)
        draw_blocks(page, good, shown.get(good) or blocks(good), more)


def _draw_second_model(field: ModelField, state: HeadState) -> None:
    if field.is_offered(state):
        choose_model(field, is_first=False)


def _is_in_link(place: WidgetPlace, kind: type[HeadState]) -> bool:
    """Returns whether the link says something of a field of a place."""
    parameters = {name.split(".")[0] for name in st.query_params}
    return any(field.place == place and field.parameter in parameters for field in kind.fields)
