"""The answer: the number as a sum, its largest terms, and the term that is opened."""

from functools import partial

import streamlit as st

from attnviz.attribution.sum_term import SumTerm
from attnviz.attribution.trail import MOST_STEPS, TrailStep
from attnviz.figures.layer_mosaic import LayerTiles
from attnviz.figures.shares import signed, split_bar, word_shares
from attnviz.language import _
from attnviz.lessons.lesson_files import LESSON
from attnviz.state.effects_links import head_effect_link
from attnviz.state.why import WhyState
from attnviz.state.why_examples import WHY_EXAMPLES
from attnviz.ui import html, quantities
from attnviz.ui.chart import chart
from attnviz.ui.downloads import link
from attnviz.ui.field_widgets import draw, set_field_value
from attnviz.ui.why.links import question_address, term_address, trail_address
from attnviz.ui.why_links import WITHOUT, effects_anchor
from attnviz.views.why import shares_csv, why_quantities
from attnviz.views.why_answer import HeadReading, StateAnswer, WhyAnswer
from attnviz.views.why_sentences import (
    answer_sentence,
    largest_sentences,
    question_sentence,
    sum_sentence,
    term_text,
)
from attnviz.views.why_tables import source_rows, term_rows

GRID_ROW = 21  # pixels
DRAWING = 420


def show(shown: StateAnswer) -> None:
    """Draws an answer."""
    quantities.publish(partial(why_quantities, shown))
    st.html(
        (html.Markup("") if st.query_params.get(LESSON) else _examples(shown))  # a lesson has steps of its own
        + _trail(shown)
        + html.summary(answer_sentence(shown), " ", largest_sentences(shown), role="status")
    )
    _show_grid(shown)
    left, right = st.columns([0.3, 0.7], gap="medium")
    with left:
        chart(split_bar(shown.parts, shown.attribution.total), "why-sum", height=190)
    with right:
        chart(word_shares(shown.by_word, shown.columns), "why-words", height=190)
    left, right = st.columns([0.4, 0.6], gap="medium")
    with left:
        st.html(_table(shown) + html.note(sum_sentence(shown)))
        _downloads(shown)
    with right:
        _show_term(shown)
    _show_drawing(shown)


def _examples(shown: StateAnswer) -> html.Markup:
    """Returns links to the questions to begin with, and of the one that is shown its steps."""
    opened, parts, steps = shown.state.link(), [], html.Markup("")
    for example in WHY_EXAMPLES:
        current = example.step_of(opened)
        is_current = "true" if current is not None else None
        parts.append(html.anchor(_(example.title), question_address(example.steps[0][1]), aria_current=is_current))
        if current is not None:
            numbers = [
                html.anchor(i + 1, question_address(own), aria_current="step" if i == current else None,
                       aria_label=_("Step {number}", number=i + 1))
                for i, (_text, own) in enumerate(example.steps)
            ]  # fmt: skip
            steps = html.element("p", *numbers, " ", _(example.steps[current][0]), class_="attnviz-why-step")
    titles = html.element("p", _("Begin with:"), " ", html.join(parts, " "), class_="attnviz-why-examples")
    return titles + steps


def _show_grid(shown: WhyAnswer) -> None:
    grid = shown.grid
    picture, tiles = grid.chart(SumTerm.from_share(shown.term) if shown.term else None), LayerTiles(*grid.values.shape)

    def open_cell(row: int, column: int) -> None:
        tile = picture.spec.head_at(row, column)
        term = None if tile is None else grid.term_at(*tiles.place(tile))
        if term is not None:
            set_field_value(WhyState.term, term)

    chart(picture, "why-grid", height=120 + GRID_ROW * picture.spec.rows, grows=False, on_click=open_cell)


def _trail(shown: WhyAnswer) -> html.Markup:
    """Returns the questions from the first to the last, with their numbers; a link leads back to each."""
    steps = shown.trail
    if not steps:
        return html.Markup("")
    items = []
    for count, opened in enumerate(shown.sums):
        text = [question_sentence(shown, count), " ", html.element("b", signed(opened.total))]
        last = count == len(steps)
        items.append(
            html.element("li", *text if last else [html.anchor(html.join(text), trail_address(steps[:count]))])
        )
    return html.element("ol", *items, class_="attnviz-trail", aria_label=_("Opened terms"))


def _table(shown: WhyAnswer) -> html.Markup:
    """Returns the largest terms as links, with their running sum."""
    rows = term_rows(shown)
    cells = [
        (
            html.anchor(row.writer, term_address(SumTerm.from_share(row.term))), html.token(row.word), row.share,
            row.sum_so_far,
        )
        for row in rows
    ]  # fmt: skip
    terms = [row.term for row in rows]
    marked = terms.index(shown.term) if shown.term in terms else None
    headings = (_("What wrote it"), _("at"), _("share"), _("sum so far"))
    return html.table(headings, cells, marked=marked, class_="attnviz-table attnviz-shares")


def _show_term(shown: StateAnswer) -> None:
    """Draws the term that is shown: what a head has read, the units of an MLP, or that an embedding is an end."""
    without: list[object] = []
    if shown.reading is not None:
        head = shown.reading.layer, shown.reading.head
        without = [" ", effects_anchor(head_effect_link(shown.state, head), _(WITHOUT))]
    st.html(html.element("p", term_text(shown), *without))
    try:
        picture = shown.term_chart()
    except ValueError as problem:
        st.caption(str(problem))
        return
    if picture is not None:
        chart(picture, "why-term", height=300 if shown.reading else 220)
    if (reading := shown.reading) is not None:
        st.html(_sources(shown, reading))


def _sources(shown: WhyAnswer, reading: HeadReading) -> html.Markup:
    """Returns the words that a head has read as a table, with the two ways on from each."""

    def way(text: str, step: TrailStep) -> html.Markup:
        return html.anchor(text, trail_address((*shown.trail, step)))

    cells = [
        (
            html.token(row.word), row.weight, row.share, way(_("its sum"), reading.step("value", row.source)),
            html.join([way(_("by the key"), reading.step("key", row.source)),
                       way(_("by the query"), reading.step("query", row.source))], " · "),
        )
        for row in source_rows(reading)
    ]  # fmt: skip
    ways = _("What did it find there?"), _("Why does it look there?")
    return html.table((_("from"), _("weight"), _("share"), *ways), cells, class_="attnviz-table attnviz-shares")


def _show_drawing(shown: StateAnswer) -> None:
    """Draws what has been opened, or all that is large enough."""
    with st.container(horizontal=True, vertical_alignment="center", key="why-drawing"):
        step = shown.next_step()
        if step is not None and len(shown.trail) < MOST_STEPS:
            st.html(html.anchor(_("Follow the largest"), trail_address((*shown.trail, step)), class_="attnviz-main"),
                    width="content")  # fmt: skip
        draw(WhyState.tree)
    if shown.state.tree:
        chart(shown.tree_drawing(), "why-circuit", height=DRAWING)
    elif shown.trail:
        chart(shown.trail_drawing(), "why-circuit", height=DRAWING)


def _downloads(shown: WhyAnswer) -> None:
    """Draws a button for all shares as CSV, and the link."""
    with st.popover(_("Download"), icon=":material/download:", key="why-download"):
        st.download_button(_("Shares as CSV"), partial(shares_csv, shown), _("shares.csv"), on_click="ignore")
        st.caption(_("PNG and SVG: the buttons above the figure. Link to this state:"))
        st.code(link(), language=None, wrap_lines=True)
