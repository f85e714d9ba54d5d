"""The text, its branches, and the map of the selected head."""

from dataclasses import dataclass, replace
from functools import partial

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz.formatting import visible
from attnviz.language import _
from attnviz.models.earlier_messages import MOST_MESSAGES
from attnviz.models.token_choices import TokenChoice
from attnviz.models.written_text import Ending, WrittenText
from attnviz.server import jobs, scheduling
from attnviz.server.page_runs import PageEnd
from attnviz.sources.written import Written
from attnviz.state.selection import Selection
from attnviz.state.viewport import is_long
from attnviz.state.why_links import WhyText, score_links, text_of_writer
from attnviz.state.write import MOST_BRANCHES, Branch, WriteState, decoder_layers, opening_row
from attnviz.ui import head_charts, head_controls, quantities, viewport_sliders
from attnviz.ui.chart import chart
from attnviz.ui.downloads import downloads
from attnviz.ui.field_widgets import draw
from attnviz.ui.fragments import draw_repeatedly
from attnviz.ui.markdown import plain
from attnviz.ui.model_menu import keep_model, load_or_end
from attnviz.ui.session_values import SessionValue
from attnviz.ui.why_links import cell_links, with_cell_links, word_links
from attnviz.ui.widget_values import field_value, set_field_value
from attnviz.ui.write import controls, writing_job, written_text
from attnviz.ui.write.branch_tree import branch_links
from attnviz.views.explore import pinned_quantities
from attnviz.views.head_view import head_view
from attnviz.views.selected_maps import map_files
from attnviz.views.write import WrittenRows, growing_map, with_roles

EVERY = 0.15  # seconds between two looks at what has been written
MORE = 24  # tokens
_sent = SessionValue[tuple[str, int]]("written tokens in the browser", lambda: ("", 0))


def show(state: WriteState, notes: DeltaGenerator) -> None:
    """Draws the text of a partial state as it is written, with the head that is chosen in the sidebar."""
    load_or_end(state.model, notes, state.prompt)
    begun = writing_job.request(state.source, notes)
    if begun is None:
        raise PageEnd
    source, job, text = begun
    keep_model(source.name)
    with st.sidebar:
        opened = head_controls.choose_head(source, decoder_layers(text))
        colors = draw(WriteState.colors)
    # A text so far is that of the same source with fewer tokens.
    selection = replace(opened, colors=colors, source=replace(source, tokens=len(text.steps)))
    pinned = None
    if text.ending:
        with st.sidebar:
            pinned = draw(WriteState.pinned, _queries(source, selection, text))
        selection = viewport_sliders.choose(selection)
    place = st.container()
    if text.ending:
        read = text_of_writer(source, text)
        with place.container():  # as that of a fragment, so that the browser keeps the element, and what is typed there
            _draw_text(source, selection, text, pinned, state.branches, read)
        _draw_map(source, selection, text, pinned, read)
    else:
        _sent.set(("", 0))  # the browser may have lost what an earlier run has sent
        _draw_growing_map(selection, text, source.tokens - len(text.steps))
        with place:
            draw_repeatedly(_follow, EVERY, source, selection, job, state.branches)


@dataclass(frozen=True)
class _Queries:
    """The queries that can be pinned."""

    query_names: list[str]
    opening_row: int | None


def _queries(source: Written, selection: Selection, text: WrittenText) -> _Queries:
    return _Queries(selection.query_names, opening_row(source, text))


def _follow(source: Written, opened: Selection, job: jobs.Job[WrittenText], branches: tuple[Branch, ...]) -> None:
    """Draws what has been written meanwhile; reruns the page when no more is written."""
    job.look(scheduling.session())
    text = job.latest
    if text is None or job.is_over or controls.current_length() != source.tokens:
        st.rerun()
    selection = replace(opened, layers=decoder_layers(text))
    if job.place:
        st.caption(scheduling.line_sentence(job.place))
    _draw_text(source, selection, text, None, branches)


def _draw_text(
    source: Written, selection: Selection, text: WrittenText, pinned: int | None, branches: tuple[Branch, ...],
    read: WhyText | None = None,
) -> None:  # fmt: skip
    name = f"{source!r} {selection.index} {selection.head}"
    sent_name, sent = _sent.get()
    start = sent if sent_name == name and not text.ending else 0
    _sent.set((name, len(text.steps)))

    def longer(tokens: int) -> int:
        return int(min(WriteState.length.most, tokens + MORE))

    def change_length(stop: bool) -> None:
        controls.ask_length(source.tokens, len(text.steps) if stop else longer(source.tokens))

    def pin(row: int | None) -> None:
        set_field_value(WriteState.pinned, row, _queries(source, selection, text))

    def write_word(position: int, word: str) -> None:
        try:
            ids = tuple(source.model().text_inputs.word_ids(word))
        except ValueError as problem:  # the translator does not know every word
            st.toast(plain(str(problem)), icon=":material/error:")
            return
        if ids:
            kept = [one for one in source.choices if one.position < position]
            set_field_value(WriteState.choices, (*kept, TokenChoice(position, ids)))
            known = tuple(dict.fromkeys(one for one in (*branches, source.choices) if one))
            set_field_value(WriteState.branches, known[-MOST_BRANCHES:])
            if (end := position + len(ids)) >= source.tokens:
                set_field_value(WriteState.length, longer(end))

    def write_after(earlier: tuple[str, ...], message: str) -> None:
        set_field_value(WriteState.earlier, earlier[-MOST_MESSAGES:])
        set_field_value(WriteState.prompt, message)
        set_field_value(WriteState.choices, ())
        set_field_value(WriteState.branches, ())
        opening = WriteState.length.opening(WriteState.partial(chat=True))
        set_field_value(WriteState.length, max(source.tokens, int(opening)))

    def reply(message: str) -> None:
        if message.strip() and text.ending:
            write_after((*source.earlier, source.prompt, text.answer), message)

    written_text.show(
        WrittenRows(text, selection), name, start=start, pinned=pinned, source=source, branches=branches,
        longer=longer(source.tokens) if text.ending == Ending.COUNT and source.tokens < WriteState.length.most else 0,
        tree=branch_links(source, branches),
        why=word_links(read, text), looks=cell_links(score_links(read, selection.layer, selection.head)),
        on_length=change_length,
        on_pin=pin, on_word=write_word,
        on_reply=reply, on_restart=lambda: write_after((), (*source.earlier, source.prompt)[0]),
    )  # fmt: skip


def _draw_map(
    source: Written, selection: Selection, text: WrittenText, pinned: int | None, read: WhyText | None
) -> None:
    """Draws the map of the selected head, and small maps of all heads of its layer."""
    view = head_view(selection)
    head_map, queries = view.head_map, _queries(source, selection, text)
    if view.is_whole:
        row = len(queries.query_names) - 1 if pinned is None else pinned
        quantities.publish(partial(pinned_quantities, selection, head_map, row), visible(head_map.query_tokens[row]))

    def toggle(row: int, column: int) -> None:
        place = head_map.position_at(row, column) if column >= 0 or view.is_whole else None
        if place:
            is_pinned = field_value(WriteState.pinned, queries) == place[0]
            set_field_value(WriteState.pinned, None if is_pinned else place[0], queries)

    picture = head_map.chart(largest=view.map_end).with_about(
        hint=_("Point at a cell to read it, click to pin its query.")
    )
    if view.is_whole:
        picture = with_roles(picture, WrittenRows(text, view.selection))
        links = score_links(read, selection.layer, selection.head)
        picture = with_cell_links(picture, cell_links(links, head_map.queries, head_map.keys))
    left, right = head_charts.places(selection)
    with right, st.container(key="write-map"):
        chart(
            picture, "heatmap", height=head_charts.HEIGHT, pinned=pinned if view.is_whole else None,
            on_click=toggle, on_zoom=viewport_sliders.on_zoom(head_map),
        )  # fmt: skip
    with left:
        head_charts.show_mosaic(view.selection, view.thumbnails, view.mosaic_end)
    with st.columns([0.8, 0.2])[1]:
        downloads(map_files(head_map, lambda: picture, selection.source.weights_note))


def _draw_growing_map(selection: Selection, text: WrittenText, length: int) -> None:
    """Draws the map of the selected head with room for `length` rows more, which the browser fills as they are made."""
    if is_long(selection.inputs):
        return
    view = head_view(selection)
    left, right = head_charts.places(selection)
    with right, st.container(key="write-map"):
        figure = with_roles(growing_map(view.head_map, length), WrittenRows(text, view.selection))
        chart(figure, "heatmap", height=head_charts.HEIGHT)
    with left:
        head_charts.show_mosaic(view.selection, view.thumbnails, view.mosaic_end)
