"""What pages show of a number of each of several texts: how far the numbers are apart, and the texts in their order."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from attnviz.base.formatting import number, percent
from attnviz.base.language import _, plural
from attnviz.figures.histogram import histogram
from attnviz.figures.shares import signed
from attnviz.page.blocks import Anchor, Block, Control, Figure, Listing, More, Paragraph
from attnviz.page.page_view import Panel

SHOWN = 6  # texts with the lowest and the highest number that are not folded
HISTOGRAM = 220  # pixels


def texts_control(state: Any) -> More:
    """Returns the folded field of the list of texts."""
    return More(_("Texts"), [Control(type(state).many, state)], name="texts-measured")


def totals_sentence(measure: str, totals: Float[np.ndarray, " texts"]) -> str:
    """Returns how large what is measured is over the texts."""
    return _(
        "Over {texts}, {measure} is {value} on average, between {low} and {high}.",
        texts=plural("{count} text", "{count} texts", len(totals), count=len(totals)),
        measure=measure,
        value=number(float(totals.mean())),
        low=number(totals.min()),
        high=number(totals.max()),
    )


def above_sentence(totals: Float[np.ndarray, " texts"]) -> str:
    """Returns in how many texts a difference is above 0."""
    return _("In {above} of {count} it is above 0.", above=int((totals > 0).sum()), count=len(totals))


def numbers_of_texts(
    name: str, title: str, values: Float[np.ndarray, " texts"], figure: str, anchors: Sequence[Anchor] = ()
) -> Iterator[Block]:
    """Yields the numbers of something with a name in all texts, as a sentence with anchors and as bars with a title."""
    error = float(values.std(ddof=1)) / len(values) ** 0.5 if len(values) > 1 else np.nan
    others = tuple(part for anchor in anchors for part in (" ", anchor))
    yield Paragraph((_mean_sentence(name, values, error), *others), "attnviz-finding")
    panel = Panel(title, values[None], [title], [*map(str, range(len(values)))], is_signed=True)
    yield Figure(histogram(values, title, marked=0.0), figure, HISTOGRAM, panels=[panel])


def ordered_texts(items: Sequence[object], label: str) -> Iterator[Block]:
    """Yields texts in an order, those between the first and the last folded."""

    def listing(first: int, last: int) -> Listing:
        return Listing(items[first:last], label, "attnviz-examples", first + 1)

    count = len(items)
    if count <= 2 * SHOWN:
        yield listing(0, count)
        return
    yield listing(0, SHOWN)
    yield More(_("{count} more", count=count - 2 * SHOWN), [listing(SHOWN, count - SHOWN)], name="texts-between")
    yield listing(count - SHOWN, count)


def _mean_sentence(name: str, values: Float[np.ndarray, " texts"], error: float) -> str:
    names = {"head": name[:1].upper() + name[1:], "mean": signed(float(values.mean()))}
    if not np.isfinite(error):
        return _("{head}: {mean} in one text.", **names)
    is_same = percent(float((np.sign(values) == np.sign(values.mean())).mean()), 2)
    return _(
        "{head}: {mean} on average, with a standard error of {error}; {share} of the texts have the same sign.",
        error=number(error),
        share=is_same,
        **names,
    )
