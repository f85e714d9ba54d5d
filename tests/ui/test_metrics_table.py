"""Which metrics are offered, and what is said of the tokens that they rest on."""

from dataclasses import replace

import numpy as np
import pytest

from attnviz.layer import Kind
from attnviz.models.minilm import minilm
from attnviz.state.models import offered_metrics
from attnviz.ui.models.metrics_table import positions_text


@pytest.mark.parametrize(
    ("kinds", "offered"),
    [
        ([Kind.CAUSAL], False),
        ([Kind.CAUSAL, Kind.CROSS], False),
        ([Kind.CROSS], False),
        ([Kind.SELF], True),
        ([Kind.SELF, Kind.CAUSAL, Kind.CROSS], True),
    ],
)
def test_the_next_token_is_offered_where_a_layer_can_attend_to_it(kinds: list[Kind], offered: bool) -> None:
    layer = minilm().layers("a cat")[0]
    menu = offered_metrics([replace(layer, kind=kind) for kind in kinds])
    assert ("Next token" in menu) == offered
    assert {"Entropy", "Previous token", "Induction", "Row sum"} <= {*menu}


@pytest.mark.parametrize(
    ("positions", "text"),
    [
        ([0, 0], ""), ([], ""), ([1, 1], "over 1 token"), ([3, 3], "over 3 tokens"), ([0, 3], "over 3 tokens"),
        ([3, 1200], "over 3 to 1,200 tokens"),
    ],
)  # fmt: skip
def test_on_how_many_tokens_a_number_rests(positions: list[int], text: str) -> None:
    assert positions_text(np.array(positions, dtype=int)) == text
