"""What Why shows."""

import csv
import io

from attnviz.formatting import spreadsheet_cell
from attnviz.language import _
from attnviz.lessons.checks import Quantities
from attnviz.state.why import WhyState
from attnviz.views.page_view import PageView, Panel
from attnviz.views.why_answer import WhyAnswer, why_answer


def why(state: WhyState) -> PageView:
    """Returns the shares of the words, and of the words that the shown head has read beside its weights. Raises
    ValueError if the number is not a sum."""
    shown = why_answer(state)
    panels = [Panel(_("Shares of words"), shown.by_word[None], [""], shown.columns)]
    if (reading := shown.reading) is not None:
        name, word = shown.writer(reading.term), [shown.word(reading.term)]
        panels += [
            Panel(_("{head}: weights", head=name), reading.weights[None], word, reading.keys),
            Panel(_("{head}: shares", head=name), reading.sources[None], word, reading.keys),
        ]
    return PageView(tuple(panels), why_quantities(shown))


def why_quantities(shown: WhyAnswer) -> Quantities:
    """Returns the numbers that lessons check: the sum, the share of each head, and what the shown head has read."""
    numbers = {"total": shown.attribution.total}
    for layer, heads in enumerate(shown.attribution.heads.sum(-1).tolist()):
        numbers |= {f"share of {layer}.{head}": share for head, share in enumerate(heads)}
    if (reading := shown.reading) is not None:
        for position, key in enumerate(reading.keys):
            numbers[f"weight of {key} {position}"] = float(reading.weights[position])
            numbers[f"share from {key} {position}"] = float(reading.sources[position])
    return numbers


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
