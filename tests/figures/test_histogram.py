"""Histograms: each value is in the bar whose numbers hold it."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnviz.figures.histogram import MOST_BARS, histogram

NUMBERS = st.lists(st.floats(-1e4, 1e4).map(lambda one: round(one, 3)), min_size=1, max_size=50)


@given(NUMBERS)
def test_bars_hold_every_value_once(values: list[float]) -> None:
    chart = histogram(np.array(values))
    bar = chart.figure.data[0]
    assert len(bar.y) <= MOST_BARS + 1
    assert sum(bar.y) == len(values)
    step = bar.width / 0.94
    for middle, count in zip(bar.x, bar.y, strict=True):
        low, high = middle - step / 2, middle + step / 2
        assert sum(low + 1e-6 < one < high - 1e-6 for one in values) <= count
        assert count <= sum(low - 1e-6 <= one <= high + 1e-6 for one in values)
    assert [int(re.search(r"(\d+) texts?$", text)[1]) for text in chart.spec.sentences] == [*bar.y]


@pytest.mark.parametrize(("texts", "step"), [(1, 1), (5, 1), (6, None)])
def test_few_texts_have_no_halves(texts: int, step: int | None) -> None:
    assert histogram(np.full(texts, 0.3)).figure.layout.yaxis.dtick == step


def test_values_that_are_not_known_are_in_no_bar() -> None:
    assert sum(histogram(np.array([0.5, np.nan])).figure.data[0].y) == 1
    with pytest.raises(ValueError, match="expected"):
        histogram(np.array([np.nan]))
