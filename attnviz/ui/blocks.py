"""Blocks as Streamlit draws them."""

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from copy import copy
from functools import partial
from typing import Any

import numpy as np
import streamlit as st
from markupsafe import Markup
from streamlit.delta_generator import DeltaGenerator

from attnviz.base.language import _
from attnviz.base.link import Link
from attnviz.classroom.question import cells_question, head_question, keys_question
from attnviz.lessons.lesson_files import LESSON
from attnviz.page import html
from attnviz.page.block_html import block_html
from attnviz.page.blocks import (
    Anchor,
    Block,
    Caption,
    Cells,
    CellsQuestion,
    ClassQuestion,
    Columns,
    Computed,
    Control,
    Download,
    Drawing,
    Figure,
    HeadQuestion,
    InWords,
    Kept,
    ModelPath,
    More,
    OptionMenu,
    OtherStates,
    Prediction,
    Row,
    Script,
    Summary,
    Tabs,
    Unavailable,
    page_quantities,
)
from attnviz.page.fields import SteppedField
from attnviz.page.glossary import Terms
from attnviz.page.long_maps import LONG_WORK
from attnviz.page.state import State
from attnviz.pages.lookup.state import DictionaryField, LookupState
from attnviz.pages.masks.state import MaskField
from attnviz.pages.steps.state import StepsState
from attnviz.pages.write.state import WriteState
from attnviz.ui import cache, presentation, quantities
from attnviz.ui.chart import chart
from attnviz.ui.classroom import class_questions
from attnviz.ui.dictionary_editor import draw_dictionary
from attnviz.ui.downloads import downloads
from attnviz.ui.field_widgets import choice_tabs, draw, hidden_container, show_error
from attnviz.ui.job_progress import result_so_far
from attnviz.ui.lesson_strip import named_controls
from attnviz.ui.link_state import own_address
from attnviz.ui.markdown import plain
from attnviz.ui.mask_editor import draw_mask
from attnviz.ui.matrices import draw_matrices
from attnviz.ui.network import draw_network
from attnviz.ui.page_state import draw_field
from attnviz.ui.path import draw_path
from attnviz.ui.play_slider import slider
from attnviz.ui.prediction_form import predict
from attnviz.ui.session_values import SessionValue
from attnviz.ui.why_links import cell_links, with_cell_links
from attnviz.ui.widget_values import field_value, set_field_value
from attnviz.ui.write.written_text import draw_written_text

MENU = 240  # pixels
DRAWINGS: dict[type[State], Callable[[Any], None]] = {
    LookupState: draw_network,
    StepsState: draw_matrices,
    WriteState: draw_written_text,
}


def draw_blocks(page: str, state: State, blocks: Iterable[Block], folded: DeltaGenerator) -> None:
    """Draws what a page shows in a state, and gives lessons and classes its quantities. While a lesson runs, controls
    that its step does not name are `folded`."""
    place = _Page(page, state, folded)
    _draw(place, [*blocks])
    numbers = [block.quantities for block in place.drawn]
    if None not in numbers and any(each is not dict for each in numbers):
        query = next((block.query for block in place.drawn if block.query), "")
        quantities.publish(partial(page_quantities, place.drawn), query)


_SET = SessionValue[list[str]]("set by a click", list)  # the parameters of the fields that the last one set


class _Page:
    """A page whose links are opened in place."""

    def __init__(self, name: str, state: State, folded: DeltaGenerator) -> None:
        self.name, self.state, self.folded, self.named = name, state, folded, named_controls()
        self.drawn: list[Summary] = []
        self.own = tuple(field.parameter for field in state.fields)
        self.terms = Terms.of_state(state)

    def folds(self, block: Block) -> bool:
        """Returns whether a block is a control that the step of a lesson does not name."""
        return isinstance(block, Control) and self.named is not None and block.field.parameter not in self.named

    def address(self, anchor: Anchor) -> str:
        """Returns where an anchor leads."""
        if anchor.page:
            return presentation.page_link(anchor.page, anchor.link)
        return own_address(self.name, self.own, anchor.link)

    def open(self, link: Link) -> None:
        """Gives the widgets of this page the values of a link; call it in a callback."""
        opened, changed, set_before = self.state.opened(link), list[str](), _SET.get()
        for field in opened.fields:
            if field.name in opened.values:
                value = opened.values[field.name]
                # Of what the last click set, the browser may still send the value before.
                is_late = field.parameter in set_before and field_value(field, opened) != value
                if is_late or value != self.state.values.get(field.name):
                    set_field_value(field, value, opened)
                    changed.append(field.parameter)
        _SET.set(changed)


def _draw(page: _Page, blocks: Iterable[Block]) -> None:
    texts: list[Markup] = []  # which are drawn as one element

    def draw_texts() -> None:
        if texts:
            st.html(html.join(texts))
            texts.clear()

    for block in blocks:
        sentences = block.blocks if isinstance(block, Drawing) else [block]
        page.drawn += [each for each in sentences if isinstance(each, Summary)]
        is_text = not isinstance(block, InWords | Script)
        if is_text and (text := block_html(block, page.address, page.terms.explain)) is not None:
            if isinstance(block, Caption) and page.named is not None:
                with page.folded:
                    st.html(text)
            else:
                texts.append(text)
            continue
        draw_texts()
        _draw_block(page, block)
    draw_texts()


def _draw_block(page: _Page, block: Block) -> None:
    match block:
        case Figure(picture, name, height, opens):

            def click(row: int, column: int) -> None:
                if opens is not None and (opened := opens(row, column)) is not None:
                    page.open(opened)

            def zoom(cells: Cells | None) -> None:
                if block.zooms is not None:
                    page.open(block.zooms(cells))

            def drop(x: float, y: float) -> None:
                if block.drags is not None:
                    page.open(block.drags(x, y))

            def paint(cells: np.ndarray, value: bool) -> None:
                if block.paints is not None:
                    try:
                        page.open(block.paints(cells, value))
                    except ValueError as problem:
                        st.toast(plain(str(problem)), icon=":material/error:")

            if block.score_links is not None:
                picture = with_cell_links(picture, cell_links(block.score_links))
            chart(
                picture, name, height=height, grows=None if block.grows is True else block.grows,
                cells=block.cells, pinned=block.pinned,
                title=block.title,
                on_click=None if opens is None else click, on_zoom=None if block.zooms is None else zoom,
                on_stroke=None if block.paints is None else paint, on_drag=None if block.drags is None else drop,
            )  # fmt: skip
        case Columns(columns) if all(page.folds(block) for _share, blocks in columns for block in blocks):
            for _share, blocks in columns:  # nothing is in columns, which would keep their place
                _draw(page, blocks)
        case Columns(columns):
            places = st.columns([share for share, _blocks in columns], gap="medium")
            # The widest first: it has what people wait for, and a browser draws figures one after the other.
            for place, (_share, blocks) in sorted(zip(places, columns, strict=True), key=lambda one: -one[1][0]):
                with place:
                    _draw(page, blocks)
        case Row(blocks, name):
            with st.container(horizontal=True, vertical_alignment="center", key=name):
                _draw(page, blocks)
        case More(title, blocks, is_open, name):
            folded = copy(page)  # what it explains is explained again where it is seen
            folded.terms = copy(page.terms)
            with st.expander(title, expanded=is_open, key=name or None):
                _draw(folded, blocks)
        case Tabs(field, state, blocks):
            with st.container(key="lesson-tabs" if st.query_params.get(LESSON) else "page-tabs"):
                for name, tab in choice_tabs(field, state).items():
                    if tab.open and name == field.name_of(state, state.values[field.name]):
                        with tab:
                            _draw(page, blocks)
        case Unavailable(text):
            show_error(text)
        case OptionMenu(field, state):
            draw_field(field, state, partial(draw, label_visibility="collapsed", width=MENU))
        case OtherStates(blocks):
            if not st.query_params.get(LESSON):  # which has steps of its own
                with st.container(key="other-states"):
                    _draw(page, blocks)
        case Computed():
            _draw_computed(page, block)
        case ClassQuestion(ask, options, values):
            class_questions.offer_question(ask, partial(keys_question, ask, options, values))
        case Script(text):
            st.code(text, language="python")
        case Control(DictionaryField() as field, state):
            draw_dictionary(field, state)
        case Control(field, state, stays):
            with (
                page.folded if page.folds(block) else nullcontext(),
                presentation.control(field.parameter) if stays else nullcontext(),
            ):
                if isinstance(field, MaskField):
                    draw_mask(field, state)
                else:
                    draw_field(field, state, slider if isinstance(field, SteppedField) else draw)
        case Kept(fields, state):
            for field in fields:
                with hidden_container(field.parameter):
                    draw_field(field, state)
        case HeadQuestion(name, values):
            ask = _("Which head is {name}?", name=name)
            class_questions.offer_question(ask, lambda: head_question(name, values()))
        case CellsQuestion(ask, queries, keys, cells):
            class_questions.offer_question(ask, partial(cells_question, ask, queries, keys, cells))
        case Prediction(query, keys, weights, above, below):
            place = st.container()
            is_known = predict("head", query, keys, weights)
            with place:
                _draw(page, above(is_known))
            _draw(page, below(is_known))
        case Download(files):
            downloads(files)
        case ModelPath():
            draw_path(block, page.address, page.open)
        case Drawing(state):
            DRAWINGS[type(state)](state)


def _draw_computed(page: _Page, block: Computed[Any]) -> None:
    """Draws the blocks of the result so far, and its progress; or of the last one that could be computed."""
    notes = st.container()

    def result(computed: Computed[Any]) -> Any:
        work = computed.work
        if work is not None and work <= LONG_WORK:
            with notes:  # with a spinner, so that what is below keeps its place
                return cache.once(computed.compute, *computed.key(), work=work)
        return result_so_far(computed.compute, *computed.key(), describe=computed.describe)

    def computed() -> Computed[Any]:
        result(block)
        return block

    good = cache.or_last_good(f"{page.name} {block.name}", block.subject, computed, lambda: None, notes)
    if good is not None:
        _draw(page, good.shows(result(good)))  # each block as soon as it is known
