"""The answer: the number as a sum, its largest terms, and the term that is opened."""

from functools import partial
from itertools import accumulate

import streamlit as st

from attnviz.attribution.sum_term import SumTerm
from attnviz.attribution.trail import MOST_STEPS, TrailStep
from attnviz.figures.layer_mosaic import LayerTiles
from attnviz.figures.shares import signed, split_bar, word_shares
from attnviz.formatting import number
from attnviz.language import _
from attnviz.state.why import WhyState
from attnviz.state.why_examples import WHY_EXAMPLES
from attnviz.ui import html, quantities
from attnviz.ui.chart import chart
from attnviz.ui.downloads import link
from attnviz.ui.field_widgets import draw, set_field_value
from attnviz.ui.why.links import anchor, question_address, term_address, trail_address
from attnviz.views.why import shares_csv, why_quantities
from attnviz.views.why_answer import HeadReading, WhyAnswer
from attnviz.views.why_sentences import (
    answer_sentence,
    largest_sentence,
    question_sentence,
    reading_sentences,
    sum_sentence,
    term_sentence,
)

ROWS = 10  # of the table of the largest terms
SOURCES = 4  # words that a head has read, in the table
GRID_ROW = 21  # pixels
DRAWING = 420


def show(shown: WhyAnswer) -> None:
    """Draws an answer."""
    quantities.publish(partial(why_quantities, shown))
    st.html(
        _examples(shown)
        + _trail(shown)
        + html.summary(answer_sentence(shown), " ", largest_sentence(shown), role="status")
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


def _examples(shown: WhyAnswer) -> html.Markup:
    """Returns links to the questions to begin with, and of the one that is shown its steps."""
    opened, parts, steps = shown.state.link(), [], html.Markup("")
    for example in WHY_EXAMPLES:
        current = example.step_of(opened)
        is_current = "true" if current is not None else None
        parts.append(anchor(_(example.title), question_address(example.steps[0][1]), aria_current=is_current))
        if current is not None:
            numbers = [
                anchor(i + 1, question_address(own), aria_current="step" if i == current else None,
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
    steps = shown.state.trail
    if not steps:
        return html.Markup("")
    items = []
    for count, opened in enumerate(shown.sums):
        text = [question_sentence(shown, count), " ", html.element("b", signed(opened.total))]
        last = count == len(steps)
        items.append(html.element("li", *text if last else [anchor(html.join(text), trail_address(steps[:count]))]))
    return html.element("ol", *items, class_="attnviz-trail", aria_label=_("Opened terms"))


def _table(shown: WhyAnswer) -> html.Markup:
    """Returns the largest terms as links, with their running sum."""
    rows = shown.attribution.largest(ROWS)
    sums = accumulate((row.share for row in rows), initial=shown.attribution.constant + shown.attribution.bias)
    next(sums)
    cells = [
        (
            anchor(shown.writer(row), term_address(SumTerm.from_share(row))), html.token(shown.word(row)),
            signed(row.share), signed(running),
        )
        for row, running in zip(rows, sums, strict=True)
    ]  # fmt: skip
    marked = rows.index(shown.term) if shown.term in rows else None
    headings = (_("What wrote it"), _("at"), _("share"), _("sum so far"))
    return html.table(headings, cells, marked=marked, class_="attnviz-table attnviz-shares")


def _show_term(shown: WhyAnswer) -> None:
    """Draws the term that is shown: what a head has read, the units of an MLP, or that an embedding is an end."""
    term = shown.term
    if term is None:
        st.caption(_("There is no such term in this sum. Choose one of the table."))
        return
    if (reading := shown.reading) is not None:
        st.html(html.paragraphs([" ".join(reading_sentences(shown, reading))]))
    else:
        more = _("An embedding is an end: it is the word itself.") if term.layer is None else ""
        if term.layer is not None and term.head is None:
            more = _("What an MLP has written is taken as given; these are its hidden units with the largest shares.")
        st.html(html.paragraphs([f"{term_sentence(shown, term)} {more}".strip()]))
    try:
        picture = shown.term_chart()
    except ValueError as problem:
        st.caption(str(problem))
        return
    if picture is not None:
        chart(picture, "why-term", height=300 if reading else 220)
    if reading is not None:
        st.html(_sources(shown, reading))


def _sources(shown: WhyAnswer, reading: HeadReading) -> html.Markup:
    """Returns the words that a head has read as a table, with the two ways on from each."""
    order = sorted(range(len(reading.keys)), key=lambda i: -abs(reading.sources[i]))[:SOURCES]
    if reading.strongest_key not in order:
        order.append(reading.strongest_key)

    def way(text: str, step: TrailStep) -> html.Markup:
        return anchor(text, trail_address((*shown.state.trail, step)))

    cells = [
        (
            html.token(reading.keys[i]), number(reading.weights[i]), signed(reading.sources[i]),
            way(_("its sum"), reading.step("value", i)),
            html.join([way(_("by the key"), reading.step("key", i)), way(_("by the query"), reading.step("query", i))],
                      " · "),
        )
        for i in order
    ]  # fmt: skip
    ways = _("What did it find there?"), _("Why does it look there?")
    return html.table((_("from"), _("weight"), _("share"), *ways), cells, class_="attnviz-table attnviz-shares")


def _show_drawing(shown: WhyAnswer) -> None:
    """Draws what has been opened, or all that is large enough."""
    with st.container(horizontal=True, vertical_alignment="center", key="why-drawing"):
        step = shown.next_step()
        if step is not None and len(shown.state.trail) < MOST_STEPS:
            st.html(anchor(_("Follow the largest"), trail_address((*shown.state.trail, step)), class_="attnviz-main"),
                    width="content")  # fmt: skip
        is_tree = draw(WhyState.tree, shown.state)
    if is_tree:
        chart(shown.tree_drawing(), "why-circuit", height=DRAWING)
    elif shown.state.trail:
        chart(shown.trail_drawing(), "why-circuit", height=DRAWING)


def _downloads(shown: WhyAnswer) -> None:
    """Draws a button for all shares as CSV, and the link."""
    with st.popover(_("Download"), icon=":material/download:", key="why-download"):
        st.download_button(_("Shares as CSV"), partial(shares_csv, shown), _("shares.csv"), on_click="ignore")
        st.caption(_("PNG and SVG: the buttons above the figure. Link to this state:"))
        st.code(link(), language=None, wrap_lines=True)
