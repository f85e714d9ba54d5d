"""What the viewer of a sum shows: its questions, sentences, charts and tables, in which links open other sums."""

from typing import Any

from attnviz.attribution.sum_term import SumTerm, format_term
from attnviz.attribution.trail import MOST_STEPS, StepQuestion, TrailStep, format_trail
from attnviz.chart import header
from attnviz.figures.chart_spec import Chart, ChartSpec
from attnviz.figures.layer_mosaic import LayerTiles
from attnviz.figures.shares import signed, split_bar, word_shares
from attnviz.language import _
from attnviz.views.why_answer import HeadReading, WhyAnswer
from attnviz.views.why_sentences import (
    answer_sentence,
    largest_sentences,
    question_sentence,
    sum_sentence,
    term_text,
)
from attnviz.views.why_tables import source_rows, term_rows

GRID_ROW, AROUND_GRID = 21, 120  # pixels
BARS, UNITS, READING, DRAWING = 190, 220, 300, 420  # pixels


def why_content(shown: WhyAnswer, key: str) -> dict[str, Any]:
    """Returns what is shown of an answer; a link is a text with the state that it opens. `key` tells the charts from
    those of other viewers."""
    of_sum, of_term = sum_content(shown, key), term_content(shown, key)
    return of_sum | of_term | {"charts": of_sum["charts"] | of_term["charts"]}


def sum_content(shown: WhyAnswer, key: str) -> dict[str, Any]:
    """Returns the part of `why_content` that does not depend on the term that is shown."""
    grid = shown.grid.chart(None)
    charts = {
        "grid": _sent(key, "grid", grid, AROUND_GRID + GRID_ROW * grid.spec.rows, clicks=True)
        | {"places": [format_term(shown.grid.term_at(*place)) for place in _grid_cells(shown)]},
        "sum": _sent(key, "sum", split_bar(shown.parts, shown.attribution.total), BARS),
        "words": _sent(key, "words", word_shares(shown.by_word, shown.columns), BARS),
    }
    if shown.trail:
        charts["drawing"] = _sent(key, "drawing", shown.trail_drawing(), DRAWING)
    step = shown.next_step() if len(shown.trail) < MOST_STEPS else None
    return {
        "questions": [
            [question_sentence(shown, count), signed(each.total), _trail(shown.trail[:count])]
            for count, each in enumerate(shown.sums)
        ],
        "answer": f"{answer_sentence(shown)} {largest_sentences(shown)}".strip(),
        "sum": sum_sentence(shown),
        "charts": charts,
        "terms": _terms(shown),
        "next": None if step is None else [_("Follow the largest"), _trail((*shown.trail, step))],
        "opened": _("Opened terms"),
    }


def term_content(shown: WhyAnswer, key: str) -> dict[str, Any]:
    """Returns the part of `why_content` about the term that is shown: `tile` is its cell of the grid, and `marked` its
    row of the table of terms, or None."""
    text, charts = term_text(shown), {}
    try:
        picture: Chart[ChartSpec] | None = shown.term_chart()
    except ValueError as problem:
        picture, text = None, f"{text} {problem}"
    if picture is not None:
        charts["term"] = _sent(key, "term", picture, READING if shown.reading else UNITS)
    return {
        "term": text,
        "charts": charts,
        "sources": None if shown.reading is None else _sources(shown, shown.reading),
        "marked": next((i for i, row in enumerate(term_rows(shown)) if row.term == shown.term), None),
        "tile": None if shown.term is None else _grid_cells(shown).index(shown.grid.cell(shown.term)),
    }


def _sent(key: str, name: str, picture: Chart[Any], height: int, *, clicks: bool = False) -> dict[str, Any]:
    return header(picture, f"{key} {name}", height=height, grows=False, clicks=clicks)


def _grid_cells(shown: WhyAnswer) -> list[tuple[int, int]]:
    """Returns the cell of each tile of the grid."""
    rows, columns = shown.grid.values.shape
    return [*map(LayerTiles(rows, columns).place, range(rows * columns))]


def _terms(shown: WhyAnswer) -> dict[str, Any]:
    """Returns the table of the largest terms, whose names open them."""
    return {
        "headings": [_("What wrote it"), _("at"), _("share"), _("sum so far")],
        "rows": [
            [[[row.writer, _trail(shown.trail, SumTerm.from_share(row.term))]], row.word, row.share, row.sum_so_far]
            for row in term_rows(shown)
        ],
    }


def _sources(shown: WhyAnswer, reading: HeadReading) -> dict[str, Any]:
    """Returns the table of the words that a head has read, with the ways on."""

    def way(text: str, question: StepQuestion, source: int) -> tuple[str, dict[str, str]]:
        return text, _trail((*shown.trail, reading.step(question, source)))

    return {
        "headings": [
            _("from"), _("weight"), _("share"), _("What did it find there?"), _("Why does it look there?"),
        ],
        "rows": [
            [
                row.word, row.weight, row.share, [way(_("its sum"), "value", row.source)],
                [way(_("by the key"), "key", row.source), way(_("by the query"), "query", row.source)],
            ]
            for row in source_rows(reading)
        ],
    }  # fmt: skip


def _trail(steps: tuple[TrailStep, ...], term: SumTerm | None = None) -> dict[str, str]:
    """Returns the state at the end of a trail, with a term, by default that which is shown without a choice."""
    return {"trail": format_trail(steps), "term": format_term(term)}
