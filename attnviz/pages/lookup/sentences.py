"""What Lookup says of a query, and its numbers and entries in words."""

from collections.abc import Sequence

from attnviz.base.formatting import fixed, number, significant
from attnviz.base.language import N_, _
from attnviz.figures.plane import COLORS
from attnviz.page.html import Markup, element, join, token
from attnviz.pages.lookup.dictionary import EXACT, Dictionary, LookupResult
from attnviz.pages.lookup.state import LookupState

NOTHING = N_("nothing")
NEARLY_ALL = 0.995  # a weight that is written as 1.00


def result_sentence(state: LookupState) -> Markup:
    """Returns a sentence about the result and how it comes about."""
    dictionary, lookup, softness = state.table, state.result, state.softness
    if lookup.result is None:
        query = ", ".join(map(significant, state.query))
        sentence = Markup(_("No key equals the query ({query}): <b>{nothing}</b> comes back."))
        return sentence.format(query=query, nothing=_(NOTHING))
    weighted = [i for i, weight in enumerate(lookup.weights) if weight]
    strongest = max(weighted, key=lambda i: lookup.weights[i])
    if softness == EXACT:
        text = _("The query is the key of {key}: its value {value} comes back.")
    elif softness == "uniform":
        text = _("Every key weighs the same, whatever the query: the mean, {value}, comes back.")
    elif len(weighted) == 1:
        text = _("All the weight is on the most similar key, {key}: {value} comes back.")
    elif softness == "hard":
        text = _("{keys} are equally similar and share the weight: {value} comes back.")
    elif lookup.weights[strongest] >= NEARLY_ALL:
        text = _("Nearly all the weight is on the most similar key, {key}: {value} comes back.")
    else:
        text = _("A bit of every value comes back: {value}.")
    key, keys = entry(dictionary, strongest), entries(dictionary, weighted)
    return Markup(text).format(key=key, keys=keys, value=element("b", result_text(lookup.result)))


def limit_sentence(dictionary: Dictionary, hard: LookupResult, exact: LookupResult) -> Markup:
    """Returns a sentence that compares hard attention and the dictionary."""
    best = [i for i, weight in enumerate(hard.weights) if weight]
    equal = None if exact.result is None else exact.weights.index(1.0)
    if equal is None:
        text = _(
            "As T goes to 0, all the weight goes to {keys}. A dictionary needs an equal key, and there is none: "
            "attention still answers."
        )
    elif best == [equal]:
        text = _("As T goes to 0, all the weight goes to {keys}, whose key the query is: the limit is the dictionary.")
    else:
        text = _(
            "As T goes to 0, all the weight goes to {keys}, yet the query is the key of {equal}: under this similarity "
            "a key need not be the most similar one to itself."
        )
    equal_entry = "" if equal is None else entry(dictionary, equal)
    return Markup(text).format(keys=entries(dictionary, best), equal=equal_entry)


def entry(dictionary: Dictionary, i: int) -> Markup:
    """Returns the word of an entry, behind a dot in its color."""
    return element("i", class_="attnviz-dot", style=f"background:{COLORS[i]}") + token(dictionary.words[i])


def entries(dictionary: Dictionary, numbers: Sequence[int]) -> Markup:
    """Returns several entries: “cat, hen and ant”."""
    *others, last = [entry(dictionary, i) for i in numbers]
    return join([join(others, ", "), last], f" {_('and')} ") if others else last


def plain_number(value: float, decimals: int = 2) -> str:
    """Formats a number with fixed decimals, or without decimals if it is an integer."""
    return fixed(value, 0 if value == round(value) else decimals)


def result_text(value: float | None) -> str:
    """Formats a result, which may be nothing."""
    return _(NOTHING) if value is None else plain_number(value)


def weight_text(value: float) -> str:
    """Formats a weight; one that is 0 or 1 without decimals."""
    return str(int(value)) if value in (0, 1) else number(value)
