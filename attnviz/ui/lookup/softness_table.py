"""The weights at every softness, from uniform through softmax and hard to the dictionary."""

import streamlit as st

from attnviz.language import _, option_name
from attnviz.lookup.dictionary import EXACT, SOFTNESS, Dictionary, LookupResult, look_up, lookup_mechanism
from attnviz.page.html import Markup, element, table
from attnviz.state.lookup import LookupState
from attnviz.ui.lookup.labels import entries, entry, result, weight


def show(state: LookupState) -> None:
    dictionary = state.table
    results = {
        softness: look_up(dictionary, state.query, lookup_mechanism(softness, state.score))
        for softness in reversed(SOFTNESS)
    }
    headings = [_("softness"), _("result"), *(entry(dictionary, i) for i in range(len(dictionary.entries)))]
    rows = [
        (option_name(name), element("b", result(one.result)), *map(weight, one.weights))
        for name, one in results.items()
    ]
    marked = list(results).index(state.softness)
    st.html(table(headings, rows, marked=marked, class_="attnviz-table attnviz-lookup"))
    st.html(element("p", limit_sentence(dictionary, results["hard"], results[EXACT])))


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
