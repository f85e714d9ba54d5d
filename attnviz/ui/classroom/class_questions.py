"""What a teacher can ask the room about the page that is open."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np

from attnviz.base.language import N_, _
from attnviz.classroom.question import Question, keys_question, points_question
from attnviz.lessons.checks import WEIGHT, Quantities
from attnviz.ui import quantities
from attnviz.ui.session_values import SessionValue

LARGEST_WEIGHT = "largest weight"  # how the name of a quantity begins
MOST_ROWS = 6  # of weights that can be asked about, each in two ways
UNDER = " under "  # before the side in the names of the quantities of two mechanisms
QUESTIONS = {  # where the largest weight is and how the weights are spread, by whether there are a query and sides
    (False, False): (N_("Which has the largest weight?"), N_("How is the attention spread? Give ten points.")),
    (False, True): (
        N_("Which has the largest weight under {side}?"),
        N_("How is the attention spread under {side}? Give ten points."),
    ),
    (True, False): (
        N_("Where does “{query}” look most?"),
        N_("How is the attention of “{query}” spread? Give ten points."),
    ),
    (True, True): (
        N_("Where does “{query}” look most under {side}?"),
        N_("How is the attention of “{query}” spread under {side}? Give ten points."),
    ),
}
Offer = Callable[[], Question | None]
_OFFERS = SessionValue[dict[str, Offer]]("class questions", dict)


def offer_question(label: str, make: Offer) -> None:
    """Adds a question about what this run draws; it is made if a class is taught here, and left out if that raises
    ValueError."""
    _OFFERS.get()[label] = make


def page_questions() -> dict[str, Question]:
    """Returns the questions of this run, by what the teacher reads in the menu."""
    offers: Mapping[str, Offer] = {**_OFFERS.get(), **_weights_offers(quantities.collect())}
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
    _OFFERS.pop()


def _weights_offers(computed: Quantities) -> dict[str, Offer]:
    """Returns two questions for each row of weights that the page has published."""
    offers: dict[str, Offer] = {}
    for ending, weights in list(_rows(computed))[:MOST_ROWS]:
        query, side = quantities.query(), ending.removeprefix(UNDER)
        ask, spread = (_(text, query=query, side=side) for text in QUESTIONS[bool(query), bool(side)])
        keys, shares = list(weights), np.array([*weights.values()])
        offers[ask] = partial(keys_question, ask, keys, shares)
        offers[spread] = partial(points_question, spread, keys, shares)
    return offers


def _rows(computed: Quantities) -> Iterator[tuple[str, dict[str, float]]]:
    """Yields what follows the names of the tokens, such as " under A", and the weights of the tokens.

    Each row is followed by its "largest weight", whose ending is that of all its names.
    """
    row: dict[str, float] = {}
    for name, value in computed.items():
        if name.startswith(WEIGHT):
            row[name.removeprefix(WEIGHT)] = value
        elif name.startswith(LARGEST_WEIGHT) and row:
            ending = name.removeprefix(LARGEST_WEIGHT)
            yield ending, {token.removesuffix(ending): weight for token, weight in row.items()}
            row = {}
