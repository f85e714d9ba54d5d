"""Numbers and entries of the dictionary in the tables of the Lookup page."""

from collections.abc import Sequence

from attnviz.figures.plane import COLORS
from attnviz.formatting import fixed, number
from attnviz.language import N_, _
from attnviz.lookup.dictionary import Dictionary
from attnviz.page.html import Markup, element, join, token

NOTHING = N_("nothing")


def exact(value: float, decimals: int = 2) -> str:
    """Formats a number with fixed decimals, or without decimals if it is an integer."""
    return fixed(value, 0 if value == round(value) else decimals)


def result(value: float | None) -> str:
    return _(NOTHING) if value is None else exact(value)


def weight(value: float) -> str:
    return str(int(value)) if value in (0, 1) else number(value) if value >= 1e-4 else "< 0.0001"


def bar(weight: float, color: str) -> Markup:
    """Returns a weight as a number and a bar."""
    filled = element("i", style=f"width:{100 * weight:.1f}%;background:{color}")
    return element("span", number(weight), class_="attnviz-weight") + element("span", filled, class_="attnviz-bar")


def signed_bar(value: float, low: float, high: float, color: str) -> Markup:
    """Returns a number and a bar from 0 to it, on a scale from `low` to `high`, which has 0 in it."""
    span = high - low or 1
    left, width = ((min(value, 0) - low) / span, abs(value) / span)
    filled = element("i", style=f"margin-left:{100 * left:.1f}%;width:{100 * width:.1f}%;background:{color}")
    return element("span", exact(value), class_="attnviz-weight") + element("span", filled, class_="attnviz-bar")


def entry(dictionary: Dictionary, i: int) -> Markup:
    """Returns the word of an entry, behind a dot in its color."""
    return element("i", class_="attnviz-dot", style=f"background:{COLORS[i]}") + token(dictionary.words[i])


def entries(dictionary: Dictionary, numbers: Sequence[int]) -> Markup:
    """Returns several entries: “cat, hen and ant”."""
    *others, last = [entry(dictionary, i) for i in numbers]
    return join([join(others, ", "), last], f" {_('and')} ") if others else last
