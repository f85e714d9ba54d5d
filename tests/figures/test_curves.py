"""Curves over a training."""

import numpy as np
import pytest

from attnviz.figures import curves

STEPS = (0, 25, 100, 400)
VALUES = np.array([[0.1, 0.2, 0.7, 0.8], [0.2, 0.1, 0.8, 1.0], [0, 0, 0.1, 0.2]], dtype="f4")


@pytest.mark.parametrize("line", range(3))
def test_lines_stand_at_the_roots_of_steps_and_the_chosen_one_is_on_top(line: int) -> None:
    chart = curves(STEPS, VALUES, last=900, line=line)
    assert len(chart.figure.data) == 3
    for one in chart.figure.data:
        assert list(one.x) == [0, 5, 10, 20]
    np.testing.assert_allclose(chart.figure.data[-1].y, VALUES[line])
    assert {tuple(one.y) for one in chart.figure.data} == {tuple(row) for row in VALUES.astype("f8")}
    thick, others = chart.figure.data[-1].line, [one.line for one in chart.figure.data[:-1]]
    assert all(one.width < thick.width and one.color != thick.color for one in others)


def test_the_axis_goes_to_the_last_step_before_it_is_reached() -> None:
    axis = curves(STEPS, VALUES, last=900).figure.layout.xaxis
    assert axis.range[0] < 0 < 30 < axis.range[1] < 31
    assert list(axis.ticktext) == ["0", "50", "200", "500"]
    np.testing.assert_allclose(np.square(axis.tickvals), [0, 50, 200, 500])


def test_shares_go_from_0_to_1_and_other_values_from_0_to_the_largest() -> None:
    shares = curves(STEPS, VALUES * 0.1, last=400, share=True).figure.layout.yaxis
    assert shares.range[0] < 0 < 1 < shares.range[1] < 1.1
    assert shares.tickformat == ".0%"
    losses = curves(STEPS, VALUES * 7, last=400).figure.layout.yaxis
    assert losses.range[0] < 0 < 7 < losses.range[1] < 7.7


def test_the_mark_stands_at_its_step_and_value() -> None:
    chart = curves(STEPS, VALUES, last=400, marked=(100, 0.7))
    dot = chart.figure.data[-1]
    assert (list(dot.x), list(dot.y), dot.mode) == ([10], [0.7], "markers")
    [through] = chart.figure.layout.shapes
    assert (through.x0, through.x1, through.yref) == (10, 10, "y domain")
    assert not curves(STEPS, VALUES, last=400).figure.layout.shapes


def test_nothing_yet_is_an_empty_picture() -> None:
    chart = curves((), np.empty((0, 0), dtype="f4"), last=100)
    assert not chart.figure.data
    assert chart.figure.layout.xaxis.range[1] > 10
