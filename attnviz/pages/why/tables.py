"""The tables of Why: the largest terms of a sum, and the words that a head has read."""

from itertools import accumulate
from typing import NamedTuple

from attnviz.attribution.attribution import WriterShare
from attnviz.base.formatting import distinct_tokens, number
from attnviz.figures.shares import signed
from attnviz.pages.why.answer import HeadReading, WhyAnswer

TERMS = 10
SOURCES = 4


class TermRow(NamedTuple):
    """A term: what wrote it, at which word, its share, and the sum of the shares so far."""

    term: WriterShare
    writer: str
    word: str
    share: str
    sum_so_far: str


class SourceRow(NamedTuple):
    """A key that a head has read: its position, its word, its weight and its share."""

    source: int
    word: str
    weight: str
    share: str


def term_rows(shown: WhyAnswer) -> list[TermRow]:
    """Returns the largest terms, first those with the sign of the number; the sum begins with what the number is where
    nothing is written."""
    attribution = shown.attribution
    terms = sorted(attribution.largest(TERMS), key=lambda term: term.share * attribution.total < 0)
    sums = accumulate((term.share for term in terms), initial=attribution.constant + attribution.bias)
    next(sums)
    return [
        TermRow(
            term,
            shown.short_name(term) or shown.writer(term),
            _word(shown, term),
            signed(term.share),
            signed(sum_so_far),
        )
        for term, sum_so_far in zip(terms, sums, strict=True)
    ]


def _word(shown: WhyAnswer, term: WriterShare) -> str:
    """Returns the token at which a term is, with its position if others are the same."""
    (word,) = distinct_tokens([term.position], shown.columns[shown.column(term) - term.position :])
    return word


def source_rows(reading: HeadReading) -> list[SourceRow]:
    """Returns the keys with the largest shares, and the one with the largest weight."""
    order = sorted(range(len(reading.keys)), key=lambda i: -abs(reading.sources[i]))[:SOURCES]
    if reading.strongest_key not in order:
        order.append(reading.strongest_key)
    return [
        SourceRow(i, word, number(reading.weights[i]), signed(reading.sources[i]))
        for i, word in zip(order, distinct_tokens(order, reading.keys), strict=True)
    ]
