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
    largest_sentence,
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

    def sent(name: str, picture: Chart[Any], height: int, *, clicks: bool = False) -> dict[str, Any]:
        return header(picture, f"{key} {name}", height=height, grows=False, clicks=clicks)

    grid = shown.grid.chart(SumTerm.from_share(shown.term) if shown.term else None)
    tiles = map(LayerTiles(*shown.grid.values.shape).place, range(len(grid.spec.names)))
    charts = {
        "grid": sent("grid", grid, AROUND_GRID + GRID_ROW * grid.spec.rows, clicks=True)
        | {"places": [format_term(shown.grid.term_at(*place)) for place in tiles]},
        "sum": sent("sum", split_bar(shown.parts, shown.attribution.total), BARS),
        "words": sent("words", word_shares(shown.by_word, shown.columns), BARS),
    }
    text = term_text(shown)
    try:
        picture: Chart[ChartSpec] | None = shown.term_chart()
    except ValueError as problem:
        picture, text = None, f"{text} {problem}"
    if picture is not None:
        charts["term"] = sent("term", picture, READING if shown.reading else UNITS)
    if shown.trail:
        charts["drawing"] = sent("drawing", shown.trail_drawing(), DRAWING)
    step = shown.next_step() if len(shown.trail) < MOST_STEPS else None
    return {
        "questions": [
            [question_sentence(shown, count), signed(each.total), _trail(shown.trail[:count])]
            for count, each in enumerate(shown.sums)
        ],
        "answer": f"{answer_sentence(shown)} {largest_sentence(shown)}".strip(),
        "sum": sum_sentence(shown),
        "term": text,
        "charts": charts,
        "terms": _terms(shown),
        "sources": None if shown.reading is None else _sources(shown, shown.reading),
        "next": None if step is None else [_("Follow the largest"), _trail((*shown.trail, step))],
        "opened": _("Opened terms"),
    }


def _terms(shown: WhyAnswer) -> dict[str, Any]:
    """Returns the table of the largest terms, whose names open them."""
    rows = term_rows(shown)
    return {
        "headings": [_("What wrote it"), _("at"), _("share"), _("sum so far")],
        "rows": [
            [[[row.writer, _trail(shown.trail, SumTerm.from_share(row.term))]], row.word, row.share, row.sum_so_far]
            for row in rows
        ],
        "marked": next((i for i, row in enumerate(rows) if row.term == shown.term), None),
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
        "marked": None,
    }  # fmt: skip


def _trail(steps: tuple[TrailStep, ...], term: SumTerm | None = None) -> dict[str, str]:
    """Returns the state at the end of a trail, with a term, by default that which is shown without a choice."""
    return {"trail": format_trail(steps), "term": format_term(term)}
