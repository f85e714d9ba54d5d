"""What Why shows: a number as a sum, its largest terms, and the term that is opened."""

import csv
import io
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from attnviz.attribution.metrics import Score
from attnviz.attribution.sum_term import SumTerm
from attnviz.attribution.trail import MOST_STEPS, TrailStep
from attnviz.base.formatting import spreadsheet_cell
from attnviz.base.language import _
from attnviz.base.link import Link
from attnviz.figures.shares import signed, split_bar, word_shares
from attnviz.lessons.checks import WEIGHT, Quantities, named_quantities
from attnviz.page import html
from attnviz.page.blocks import (
    Anchor,
    Block,
    Caption,
    Columns,
    Control,
    Download,
    Figure,
    InWords,
    Listing,
    Note,
    OtherStates,
    Paragraph,
    Row,
    Summary,
    Table,
    Tabs,
    available,
)
from attnviz.page.head_numbers import Place
from attnviz.page.model_picture import HEIGHT, model_image, row_picture
from attnviz.page.page_view import Panel
from attnviz.page.picture_question import sees_picture
from attnviz.page.result_cache import result_cache
from attnviz.page.source_field import source_layers
from attnviz.page.text_question import FORWARDS
from attnviz.pages.effects.links import head_effect_link
from attnviz.pages.heads.links import in_general
from attnviz.pages.why.answer import HeadReading, StateAnswer, WhyAnswer, why_answer
from attnviz.pages.why.examples import WHY_EXAMPLES
from attnviz.pages.why.many_texts import sums_over_texts
from attnviz.pages.why.sentences import (
    answer_sentence,
    largest_sentences,
    question_sentence,
    sum_sentence,
    term_text,
)
from attnviz.pages.why.state import WhyState, sums_many
from attnviz.pages.why.tables import TERMS, source_rows, term_rows

BARS, UNITS, READING, DRAWING = 190, 220, 300, 420  # pixels


def why(state: WhyState) -> Iterator[Block]:
    """Yields the open tab. Raises ValueError if the number is not a sum."""
    shown = available(sums_over_texts(state)) if sums_many(state) else [*_sum_of_text(state)]
    yield Tabs(WhyState.inspect, state, shown)


def _sum_of_text(state: WhyState) -> Iterator[Block]:
    """Yields the answer to the question of a state. Raises ValueError if the number is not a sum."""
    shown = why_answer(state)
    if not sees_picture(state):
        yield OtherStates([*_examples(state)])
    yield from sum_blocks(shown)


def sum_blocks(shown: StateAnswer) -> Iterator[Block]:
    """Yields a sum with its trail, its terms and the one that is shown."""
    yield _trail(shown) if shown.trail else InWords(question_sentence(shown))
    largest = html.element("span", largest_sentences(shown), class_="attnviz-finding")
    yield Summary((answer_sentence(shown), " ", largest), partial(why_quantities, shown))
    picture = _picture(shown)
    yield _grid(shown) if picture is None else Columns([(0.45, [*picture]), (0.55, [_grid(shown)])])
    yield Columns([(0.3, [_parts(shown)]), (0.7, [_words(shown)])])
    yield Columns([(0.4, [*_terms(shown)]), (0.6, [*_term(shown)])])
    yield from _drawing(shown)
    yield Caption(
        _(
            "**What you are seeing.** The weights of attention and the scales of norms are held at what they are in "
            "this run, and what an MLP has written is taken as given. Then the number is a sum over all that heads, "
            "MLPs and embeddings have written, and each share is exact. **What it does not say:** a share is not a "
            "cause. Without a head, other heads would look elsewhere, and their shares would change."
        )
    )


def _examples(state: WhyState) -> Iterator[Block]:
    """Yields links to the questions to begin with, and of the one that is shown its steps."""
    opened, titles, shown = state.link(), [], None
    for example in WHY_EXAMPLES:
        current = example.step_of(opened)
        titles.append(Anchor(_(example.title), example.steps[0][1], is_current=current is not None))
        shown = shown if current is None else (example, current)
    yield Paragraph((_("Begin with:"), *((" ", title) for title in titles)), "attnviz-why-examples")
    if shown is not None:
        example, current = shown
        text, count = _(example.steps[current][0]), len(example.steps)
        more = (" ", Anchor(_("Next"), example.steps[current + 1][1])) if current + 1 < count else ()
        yield Paragraph((html.element("b", f"{current + 1}/{count}"), " ", text, *more), "attnviz-why-step")


def _trail(shown: StateAnswer) -> Block:
    """Returns the questions from the first to the last, with their numbers; each but the last opens its sum."""
    items: list[object] = []
    for count, opened in enumerate(shown.sums):
        question = question_sentence(shown, count), " ", html.element("b", signed(opened.total))
        is_last = opened is shown.attribution
        items.append(question if is_last else Anchor(question, _opened(shown, shown.trail[:count])))
    return Listing(items, _("Opened terms"), "attnviz-trail")


def _grid(shown: StateAnswer) -> Block:
    def opens(place: Place) -> Link | None:
        term = shown.terms_by_place.get(place)
        return None if term is None else shown.state.link_with(term=term)

    terms = shown.attribution.largest(TERMS)
    names = [f"{shown.short_name(term)} {shown.word(term)}".strip() for term in terms]
    panel = Panel(_("Largest terms"), np.array([[term.share for term in terms]]), [""], names, is_signed=True)
    chosen = None if shown.term is None else shown.place(shown.term)
    return shown.numbers.grid("why-grid", _("Click a head or an MLP to open it."), opens, chosen, [panel])


def _picture(shown: StateAnswer) -> Sequence[Block] | None:
    """Returns the picture under the weights of the head and the query that are asked for, or of the term that is shown,
    with what a click asks; None of a text, and where nothing is known of the weights or the patches."""
    state, reading = shown.state, shown.reading
    score = shown.metric if isinstance(shown.metric, Score) else None
    if not isinstance(state, WhyState) or not sees_picture(state):
        return None
    if score is not None:
        layer, query = score.layer, score.query
        weights = shown.run.weights(layer, score.head, query).double().numpy()
    elif reading is not None:
        layer, query, weights = reading.layer, reading.term.position, reading.weights
    else:
        return None
    image, axes = model_image(state.source), source_layers(state.source)[layer].inputs
    if image is None or not axes.grids:
        return None

    def opens(patch: int, _column: int) -> Link | None:
        return state.link_with(key=axes.grids[0].positions[patch])

    picture = row_picture(image, axes, query, weights, key=score.key if score else None)
    hint = _("Click a patch to ask why the head looks there.") if score else picture.about.hint
    figure = Figure(picture.with_about(hint=hint), "why-picture", HEIGHT, opens if score else None, grows="beside")
    key, work = ("constants", state.source, shown.metric, shown.trail), FORWARDS * state.source.forward_work
    constants = result_cache().once(lambda: shown.attribution.constant_parts, *key, work=work)
    note = _(
        "A patch is named by its row and column; its embedding is made of its own pixels. Of the constant, {position} "
        "is of the embeddings of positions and of tokens such as [CLS], the rest of biases.",
        position=signed(sum(n for path, n in constants.items() if "embed" in path)),
    )
    return [figure, Note(note)]


def _parts(shown: WhyAnswer) -> Block:
    return Figure(split_bar(shown.parts, shown.attribution.total), "why-sum", BARS)


def _words(shown: WhyAnswer) -> Block:
    panel = Panel(_("Shares of words"), shown.by_word[None], [""], shown.columns, is_signed=True)
    return Figure(word_shares(shown.by_word, shown.columns), "why-words", BARS, panels=[panel])


def _terms(shown: StateAnswer) -> Iterator[Block]:
    """Yields the largest terms with their running sum, and how the sum adds up."""
    rows = term_rows(shown)
    cells = [
        (
            Anchor(row.writer, shown.state.link_with(term=SumTerm.from_share(row.term))),
            html.token(row.word),
            row.share,
            row.sum_so_far,
        )
        for row in rows
    ]
    terms = [row.term for row in rows]
    marked = terms.index(shown.term) if shown.term in terms else None
    yield Table((_("What wrote it"), _("at"), _("share"), _("sum so far")), cells, marked)
    yield Note(sum_sentence(shown))
    yield Download([(_("Shares as CSV"), _("shares.csv"), partial(shares_csv, shown))])


def _term(shown: StateAnswer) -> Iterator[Block]:
    """Yields the term that is shown: what a head has read, the units of an MLP, or that an embedding is an end."""
    reading, others = shown.reading, tuple[object, ...]()
    if reading is not None and isinstance(shown.state, WhyState) and not sees_picture(shown.state):
        link = head_effect_link(shown.state, (reading.layer, reading.head))
        general = in_general(shown.state.model, shown.state.run.layers[reading.layer], reading.head)
        others = (" ", Anchor(_("What happens without it?"), link, "effects", "attnviz-page-link"), " ", general)
    yield Paragraph((term_text(shown), *others), "attnviz-finding")
    try:
        picture = shown.term_chart()
    except ValueError as problem:
        yield Note(str(problem))
        return
    if picture is not None:
        yield Figure(picture, "why-term", READING if reading else UNITS, panels=_reading_panels(shown, reading))
    if reading is not None:
        yield _sources(shown, reading)


def _reading_panels(shown: WhyAnswer, reading: HeadReading | None) -> list[Panel]:
    if reading is None:
        return []
    name, word = shown.writer(reading.term), [shown.word(reading.term)]
    return [
        Panel(_("{head}: weights", head=name), reading.weights[None], word, reading.keys),
        Panel(_("{head}: shares", head=name), reading.sources[None], word, reading.keys, is_signed=True),
    ]


def _sources(shown: StateAnswer, reading: HeadReading) -> Block:
    """Returns the words that a head has read as a table, with the ways on from each."""

    def way(text: str, step: TrailStep) -> Anchor:
        return Anchor(text, _opened(shown, (*shown.trail, step)))

    cells = [
        (
            html.token(row.word), row.weight, row.share, way(_("its sum"), reading.step("value", row.source)),
            (way(_("by the key"), reading.step("key", row.source)), " · ",
             way(_("by the query"), reading.step("query", row.source))),
        )
        for row in source_rows(reading)
    ]  # fmt: skip
    ways = _("What did it find there?"), _("Why does it look there?")
    return Table((_("from"), _("weight"), _("share"), *ways), cells)


def _drawing(shown: StateAnswer) -> Iterator[Block]:
    """Yields the drawing of what has been opened, or of all that is large enough."""
    step, parts = shown.next_step(), list[Block]()
    if step is not None and len(shown.trail) < MOST_STEPS:
        parts = [Paragraph(Anchor(_("Follow the largest"), _opened(shown, (*shown.trail, step)), style="attnviz-main"))]
    yield Row([*parts, Control(WhyState.tree, shown.state)], "why-drawing")
    if shown.state.tree:
        yield Figure(shown.tree_drawing(), "why-circuit", DRAWING)
    elif shown.trail:
        yield Figure(shown.trail_drawing(), "why-circuit", DRAWING)


def _opened(shown: StateAnswer, trail: tuple[TrailStep, ...]) -> Link:
    """Returns the link of the sum at the end of a trail, with the term that is shown without a choice."""
    return shown.state.link_with(trail=trail, term=None)


def why_quantities(shown: WhyAnswer) -> Quantities:
    """Returns the numbers that lessons check: the sum, the shares of heads and MLPs over all positions, that of the
    shown term at its own, and what the shown head has read."""
    numbers = {"total": shown.attribution.total}
    if shown.term is not None:
        numbers["share of the term"] = shown.term.share
    if (reading := shown.reading) is not None:
        numbers |= named_quantities(WEIGHT, reading.keys, reading.weights)
        numbers |= named_quantities("share from ", reading.keys, reading.sources)
    for layer, heads in enumerate(shown.attribution.heads.sum(-1).tolist()):
        numbers |= {f"share of {layer}.{head}": share for head, share in enumerate(heads)}
    mlps = shown.attribution.mlps.sum(-1).tolist()
    return numbers | {f"share of MLP {layer}": share for layer, share in enumerate(mlps)}


def shares_csv(shown: WhyAnswer) -> bytes:
    """Returns all terms of a sum as CSV, with what the number is where nothing is written."""
    text, attribution = io.StringIO(), shown.attribution
    table = csv.writer(text)
    table.writerow(["writer", "word", "position", "share"])
    table.writerow(["constant", "", "", repr(attribution.constant + attribution.bias)])
    for term in attribution.terms:
        word = spreadsheet_cell(shown.word(term))
        table.writerow([shown.writer(term), word, term.position, repr(term.share)])
    return text.getvalue().encode("utf-8-sig")
