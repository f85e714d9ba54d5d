"""The weights at every softness, from uniform through softmax and hard to the dictionary."""

import streamlit as st

from attnviz.language import _, option_name
from attnviz.lessons.lookup import EXACT, SOFTNESS, Dictionary, LookupResult, look_up, lookup_mechanism
from attnviz.ui.html import Markup, element, table
from attnviz.ui.lookup.controls import LookupSelection
from attnviz.ui.lookup.labels import entries, entry, result, weight


def show(selection: LookupSelection) -> None:
    dictionary = selection.dictionary
    results = {
        softness: look_up(dictionary, selection.query, lookup_mechanism(softness, selection.score))
        for softness in reversed(SOFTNESS)
    }
    headings = [_("softness"), _("result"), *(entry(dictionary, i) for i in range(len(dictionary.entries)))]
    rows = [
        (option_name(name), element("b", result(one.result)), *map(weight, one.weights))
        for name, one in results.items()
    ]
    marked = list(results).index(selection.softness)
    st.html(table(headings, rows, marked=marked, class_="attnviz-table attnviz-lookup"))
    st.html(element("p", limit_sentence(dictionary, results["hard"], results[EXACT])))


def limit_sentence(dictionary: Dictionary, hard: LookupResult, exact: LookupResult) -> Markup:
    """Returns a sentence that compares hard attention and the dictionary."""
    best = [i for i, weight in enumerate(hard.weights) if weight]
    limit = Markup(_("As T goes to 0, all the weight goes to {}")).format(entries(dictionary, best))
    if exact.result is None:
        return limit + _(". A dictionary wants an equal key, and there is none: attention still answers.")
    equal = exact.weights.index(1.0)
    if best == [equal]:
        return limit + _(", whose key the query is: the limit is the dictionary.")
    return limit + Markup(
        _(", yet the query is the key of {}: under this similarity a key need not be the most similar one to itself.")
    ).format(entry(dictionary, equal))
