"""The lookup as a network: its numbers and its sentences. The same cases are computed in tests/js/network.test.js."""

import json
from pathlib import Path

import pytest

from attnviz.pages.lookup import network
from attnviz.pages.lookup.dictionary import EXACT, SOFTNESS
from attnviz.pages.lookup.gradients import lookup_gradients
from attnviz.pages.lookup.state import EXAMPLE, LookupState
from attnviz.scores import Additive, Cosine, Dot, General, ScaledDot

CASES = Path(__file__).parents[2] / "cases" / "lookups.json"
SCORES = (
    {"similarity": ScaledDot},
    {"similarity": Dot},
    {"similarity": General},
    {"similarity": Additive, "seed": 3},
    {"similarity": Cosine},
)
START = LookupState(query_x=1.2, query_y=0.9, softness="T = 1")
STATES = [
    *(START.updated(softness=softness, **score) for score in SCORES for softness in ("T = 0.3", "hard")),
    *(START.updated(softness=softness, query_x=1.5, query_y=0.5) for softness in SOFTNESS),
]


def case(state: LookupState) -> dict:
    dictionary = state.table
    return {
        "name": f"{type(state.score).__name__}, {state.softness}",
        "data": {
            "keys": dictionary.keys.tolist(),
            "values": dictionary.values.tolist(),
            "query": list(state.query),
            **network.parameters(state.mechanism),
        },
        "numbers": json.loads(json.dumps(network.numbers(state))),
    }


def test_the_cases_for_javascript_are_what_the_library_computes() -> None:
    stored = json.loads(CASES.read_text())
    for state, expected in zip(STATES, stored, strict=True):
        actual = case(state)
        assert {**actual, "numbers": None, "data": None} == {**expected, "numbers": None, "data": None}
        assert _flat(actual) == pytest.approx(_flat(expected), abs=1e-9)


def _flat(value: object) -> list[float]:
    if isinstance(value, dict):
        return [number for one in value.values() for number in _flat(one)]
    if isinstance(value, list):
        return [number for one in value for number in _flat(one)]
    return [float(value)] if isinstance(value, int | float) else []


def test_the_network_says_where_gradients_stop() -> None:
    backward = START.updated(gradients=True)
    assert network.sentence(backward, at_rest=True) == network.FLOW
    assert "the most similar key stays" in network.sentence(backward.updated(softness="hard"), at_rest=True)
    on_key = backward.updated(softness=EXACT, query_x=1.5, query_y=0.5)
    assert network.sentence(on_key, at_rest=True) == network.JUMP
    assert "equality" in network.sentence(on_key, at_rest=False)
    assert network.sentence(START, at_rest=True) == network.HOW_TO_READ


@pytest.mark.parametrize("softness", network.WHY_NO_GRADIENT)
def test_no_gradient_reaches_the_query_where_the_network_says_so(softness: str) -> None:
    state = START.updated(softness=softness)
    gradients = lookup_gradients(EXAMPLE, state.query, state.mechanism)
    assert gradients.query == (0, 0)
    assert set(gradients.keys) == {(0, 0)}
