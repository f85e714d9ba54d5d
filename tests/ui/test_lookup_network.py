"""The lookup as a network: its numbers and its sentences. The same cases are computed in tests/js/network.test.js."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from attnviz.lookup.dictionary import EXACT, SOFTNESS
from attnviz.lookup.gradients import lookup_gradients
from attnviz.scores import Additive, Cosine, Dot, General, ScaledDot
from attnviz.ui.lookup import network
from attnviz.ui.lookup.dictionary_table import EXAMPLE
from attnviz.views.lookup import LookupSelection

CASES = Path(__file__).parents[1] / "cases" / "lookups.json"
W = torch.tensor([[0.2, -1.0], [1.0, 0.2]], dtype=torch.float64)
SCORES = (ScaledDot(), Dot(), General(W), Additive(seed=3, hidden=4), Cosine())
START = LookupSelection(EXAMPLE, (1.2, 0.9), "T = 1", ScaledDot(), "key")
SELECTIONS = [
    *(replace(START, score=score, softness=softness) for score in SCORES for softness in ("T = 0.3", "hard")),
    *(replace(START, softness=softness, query=(1.5, 0.5)) for softness in SOFTNESS),
]


def case(selection: LookupSelection) -> dict:
    dictionary = selection.dictionary
    return {
        "name": f"{type(selection.score).__name__}, {selection.softness}",
        "data": {
            "keys": dictionary.keys.tolist(),
            "values": dictionary.values.tolist(),
            "query": list(selection.query),
            **network.parameters(selection.mechanism),
        },
        "numbers": json.loads(json.dumps(network.numbers(selection))),
    }


def test_the_cases_for_javascript_are_what_the_library_computes() -> None:
    stored = json.loads(CASES.read_text())
    for selection, expected in zip(SELECTIONS, stored, strict=True):
        actual = case(selection)
        assert {**actual, "numbers": None, "data": None} == {**expected, "numbers": None, "data": None}
        assert _flat(actual) == pytest.approx(_flat(expected), abs=1e-9)


def _flat(value: object) -> list[float]:
    if isinstance(value, dict):
        return [number for one in value.values() for number in _flat(one)]
    if isinstance(value, list):
        return [number for one in value for number in _flat(one)]
    return [float(value)] if isinstance(value, int | float) else []


def test_the_network_says_where_gradients_stop() -> None:
    backward = replace(START, gradients=True)
    assert network.sentence(backward, at_rest=True) == network.FLOW
    assert "the most similar key stays" in network.sentence(replace(backward, softness="hard"), at_rest=True)
    on_key = replace(backward, softness=EXACT, query=(1.5, 0.5))
    assert network.sentence(on_key, at_rest=True) == network.JUMP
    assert "equality" in network.sentence(on_key, at_rest=False)
    assert network.sentence(START, at_rest=True) == network.HOW_TO_READ


@pytest.mark.parametrize("softness", network.WHY_NO_GRADIENT)
def test_no_gradient_reaches_the_query_where_the_network_says_so(softness: str) -> None:
    selection = replace(START, softness=softness)
    gradients = lookup_gradients(EXAMPLE, selection.query, selection.mechanism)
    assert gradients.query == (0, 0)
    assert set(gradients.keys) == {(0, 0)}
