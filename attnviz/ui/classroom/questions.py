"""What a teacher can ask the room about the page that is open."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np
import streamlit as st

from attnviz.classroom.question import Question, keys_question, points_question
from attnviz.language import N_, _
from attnviz.lessons.checks import WEIGHT, Quantities
from attnviz.ui import quantities

_KEY = "class questions"
LARGEST = "largest weight"  # how the name of a quantity begins
MOST_ROWS = 6  # of weights, each of which can be asked in two ways
ENDINGS = N_(" under A"), N_(" under B")  # of the quantities of two mechanisms
Offer = Callable[[], Question | None]


def offer_question(label: str, make: Offer) -> None:
    """Adds a question about what this run draws; it is made if a class is taught here, and left out if that raises
    ValueError."""
    st.session_state.setdefault(_KEY, {})[label] = make


def page_questions() -> dict[str, Question]:
    """Returns the questions of this run, by what the teacher reads in the menu."""
    offers: Mapping[str, Offer] = {**st.session_state.get(_KEY, {}), **_weights_offers(quantities.collect())}
    questions = {}
    for label, make in offers.items():
        try:
            question = make()
        except ValueError:  # nothing of the kind can be asked here
            continue
        if question:
            questions[label] = question
    return questions


def discard_questions() -> None:
    """Drops the questions of this run, and with them the arrays that they refer to."""
    st.session_state.pop(_KEY, None)


def _weights_offers(computed: Quantities) -> dict[str, Offer]:
    """Returns two questions for each row of weights that the page has published."""
    offers: dict[str, Offer] = {}
    for ending, weights in list(_rows(computed))[:MOST_ROWS]:
        query = quantities.query()
        ask = _("Where does “{query}” look most{ending}?") if query else _("Which has the largest weight{ending}?")
        spread = (
            _("How is the attention of “{query}” spread{ending}? Give ten points.")
            if query
            else _("How is the attention spread{ending}? Give ten points.")
        )
        ask, spread = (text.format(query=query, ending=_(ending)) for text in (ask, spread))
        keys, shares = list(weights), np.array([*weights.values()])
        offers[ask] = partial(keys_question, query, keys, shares, ask=ask)
        offers[spread] = partial(points_question, query, keys, shares, ask=spread)
    return offers


def _rows(computed: Quantities) -> Iterator[tuple[str, dict[str, float]]]:
    """Yields what follows the names of the tokens, such as " under A", and the weights of the tokens.

    Each row is followed by its "largest weight", whose ending is that of all its names.
    """
    row: dict[str, float] = {}
    for name, value in computed.items():
        if name.startswith(WEIGHT):
            row[name.removeprefix(WEIGHT)] = value
        elif name.startswith(LARGEST) and row:
            ending = name.removeprefix(LARGEST)
            yield ending, {token.removesuffix(ending): weight for token, weight in row.items()}
            row = {}
