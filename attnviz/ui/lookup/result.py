"""The result of the query: the weighted sum of all values, with its numbers."""

import streamlit as st

from attnviz.figures.plane import COLORS
from attnviz.formatting import number, significant, visible
from attnviz.language import _, in_sentence, option_name
from attnviz.lookup.dictionary import EXACT
from attnviz.normalizers import Softmax
from attnviz.page.html import Markup, element, summary, table
from attnviz.state.lookup import LookupState
from attnviz.state.parts import title
from attnviz.ui.lookup.labels import NOTHING, bar, entries, entry, exact, result, signed_bar
from attnviz.views.magnification import magnification_sentence

NEARLY_ALL = 0.995  # a weight that is written as 1.00


def show_result(state: LookupState) -> None:
    """Draws the sentence about the result."""
    st.html(summary(result_sentence(state), role="status", also="attnviz-result"))


def show_table(state: LookupState) -> None:
    """Draws the numbers of every key, and their sum."""
    dictionary, lookup = state.table, state.result
    similarity = in_sentence(title(type(state.mechanism.score)))
    origins = {
        _("key"): "", _("similarity"): similarity, _("weight"): option_name(state.softness), _("value"): "",
        _("product"): "",
    }  # fmt: skip
    low, high = min(0.0, *lookup.similarities), max(0.0, *lookup.similarities)
    rows = [
        (
            entry(dictionary, i),
            signed_bar(lookup.similarities[i], low, high, COLORS[i]),
            bar(lookup.weights[i], COLORS[i]),
            f"× {significant(one.value)}",
            exact(lookup.products[i]),
        )
        for i, one in enumerate(dictionary.entries)
    ]
    normalizer = state.mechanism.normalizer
    if isinstance(normalizer, Softmax):
        words = [visible(word) for word in dictionary.words]
        sentence = magnification_sentence(lookup.similarities, words, normalizer.temperature, _("similarity"))
        st.html(element("p", sentence, class_="attnviz-magnification"))
    st.html(
        table(
            [Markup("{}<small>{}</small>").format(*origin) for origin in origins.items()],
            rows,
            foot=(_("sum"), "", number(sum(lookup.weights)), "", element("b", result(lookup.result))),
            class_="attnviz-table attnviz-lookup",
        )
    )


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
    return Markup(text).format(key=key, keys=keys, value=element("b", result(lookup.result)))
