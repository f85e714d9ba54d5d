"""What Why shows."""

import csv
import io

import numpy as np

from attnviz.formatting import spreadsheet_cell
from attnviz.language import _
from attnviz.lessons.checks import WEIGHT, Quantities, named_quantities
from attnviz.state.why import WhyState
from attnviz.views.page_view import PageView, Panel
from attnviz.views.why_answer import WhyAnswer, why_answer
from attnviz.views.why_tables import TERMS


def why_view(state: WhyState) -> PageView:
    """Returns the shares of the largest terms and of the words, and of the words that the shown head has read beside
    its weights. Raises ValueError if the number is not a sum."""
    shown = why_answer(state)
    terms = shown.attribution.largest(TERMS)
    names = [f"{shown.short_name(term)} {shown.word(term)}".strip() for term in terms]
    panels = [
        Panel(_("Largest terms"), np.array([[term.share for term in terms]]), [""], names, is_signed=True),
        Panel(_("Shares of words"), shown.by_word[None], [""], shown.columns, is_signed=True),
    ]
    if (reading := shown.reading) is not None:
        name, word = shown.writer(reading.term), [shown.word(reading.term)]
        panels += [
            Panel(_("{head}: weights", head=name), reading.weights[None], word, reading.keys),
            Panel(_("{head}: shares", head=name), reading.sources[None], word, reading.keys, is_signed=True),
        ]
    return PageView(tuple(panels), why_quantities(shown))


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
