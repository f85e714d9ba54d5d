"""Accuracy by the length of a sentence."""

import pytest

from attnviz.figures.accuracy import accuracy

SHARES = {"attention": [1.0, 1.0, 0.9], "fixed vector": [1.0, 0.5, 0.0]}


def test_a_line_for_each_model_and_a_mark_at_the_length() -> None:
    chart = accuracy([4, 5, 6], SHARES, marked=5)
    assert {line.name: list(line.y) for line in chart.figure.data} == SHARES
    assert all(list(line.x) == [4, 5, 6] for line in chart.figure.data)
    [mark] = chart.figure.layout.shapes
    assert mark.x0 == mark.x1 == 5


@pytest.mark.parametrize("marked", [None, 3, 7])
def test_a_length_that_is_not_there_is_not_marked(marked: int | None) -> None:
    assert not accuracy([4, 5, 6], SHARES, marked=marked).figure.layout.shapes
