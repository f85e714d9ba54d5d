"""Lines from a query to the keys it looks at."""

import re

import numpy as np
import pytest

from attnviz.figures import lines
from attnviz.figures.lines import BEFORE, LEAST_WEIGHT, QUERY, TRUE, UNSEEN

ENGLISH = ("the", "<b>", "car", "car")
FRENCH = ("la", "voiture", "rouge", "<end>")
WEIGHTS = np.array([[0.9, 0.1, 0, 0], [0.25, 0, 0.75, 0], [0.004, 0.5, 0, 0.496], [np.nan] * 4], dtype="f4")
ALIGNED = ((0,), (2, 3), (1,))


def drawn(row: int, **more):
    return lines(WEIGHTS, FRENCH, ENGLISH, row=row, **more)


def strokes(chart, color: str) -> dict[tuple[int, int], object]:
    """The lines of a color, by the rows where they begin and end."""
    found = [trace for trace in chart.figure.data if trace.mode == "lines" and trace.line.color == color]
    return {(round(trace.y[0]), round(trace.y[-1])): trace for trace in found}


def rings(chart, color: str) -> list[int]:
    [trace] = [trace for trace in chart.figure.data if trace.mode == "markers" and trace.marker.color == color]
    return list(trace.y)


def test_a_word_has_a_line_to_each_key_and_a_thicker_one_for_more_weight() -> None:
    for row in range(3):
        found = strokes(drawn(row), QUERY)
        assert set(found) == {(row, key) for key in range(4) if WEIGHTS[row, key] >= LEAST_WEIGHT}
        by_weight = sorted(found, key=lambda ends: WEIGHTS[ends])
        widths, opacities = ([pick(found[ends]) for ends in by_weight] for pick in (_width, _opacity))
        for sizes in (widths, opacities):
            assert sizes == sorted(set(sizes))
        assert 0 < opacities[0] < opacities[-1] <= 1


def _width(trace) -> float:
    return trace.line.width


def _opacity(trace) -> float:
    return trace.opacity


def test_lines_run_from_the_left_to_the_right_without_a_turn() -> None:
    for trace in strokes(drawn(2), QUERY).values():
        assert (trace.x[0], trace.x[-1]) == (0, 1)
        assert (np.diff(trace.x) > 0).all()
        steps = np.diff(trace.y)
        assert (steps >= 0).all() or (steps <= 0).all()


def test_words_before_have_their_strongest_line() -> None:
    assert set(strokes(drawn(2), BEFORE)) == {(0, 0), (1, 2)}
    assert strokes(drawn(0), BEFORE) == {}


def test_rings_are_at_the_true_keys_of_the_words_so_far() -> None:
    assert (rings(drawn(0, true=ALIGNED), TRUE), rings(drawn(0, true=ALIGNED), BEFORE)) == ([0], [])
    assert (rings(drawn(1, true=ALIGNED), TRUE), rings(drawn(1, true=ALIGNED), BEFORE)) == ([2, 3], [0])
    assert (rings(drawn(2, true=ALIGNED), TRUE), rings(drawn(2, true=ALIGNED), BEFORE)) == ([1], [0, 2, 3])
    assert (rings(drawn(2), TRUE), rings(drawn(2), BEFORE)) == ([], [])


def test_the_word_after_the_last_aligned_one_has_no_ring() -> None:
    weights = np.vstack([WEIGHTS[:3], WEIGHTS[:1]])
    chart = lines(weights, FRENCH, ENGLISH, row=3, true=ALIGNED)
    assert rings(chart, TRUE) == []
    assert rings(chart, BEFORE) == [0, 1, 2, 3]


@pytest.mark.parametrize("row", range(3))
def test_words_to_come_are_not_seen_and_keep_their_room(row: int) -> None:
    chart = drawn(row, true=ALIGNED)
    names = chart.figure.layout.yaxis.ticktext
    assert [re.sub(r"<[^>]+>", "", name) for name in names] == ["la", "voiture", "rouge", "&lt;end&gt;"]
    assert [UNSEEN in name for name in names] == [i > row for i in range(4)]
    assert [QUERY in name for name in names] == [i == row for i in range(4)]
    assert chart.figure.layout.yaxis.range == chart.figure.layout.yaxis2.range == (3.5, -0.5)
    assert (chart.spec.rows, chart.spec.columns) == (4, 4)


def test_keys_are_text_and_the_true_ones_stand_out() -> None:
    assert drawn(2, true=ALIGNED).figure.layout.yaxis2.ticktext == ("the", "<b>&lt;b&gt;</b>", "car", "car")


def test_columns_of_different_lengths_share_their_rows() -> None:
    chart = lines(WEIGHTS[:, :2], FRENCH, ENGLISH[:2], row=0)
    assert chart.figure.layout.yaxis.range == chart.figure.layout.yaxis2.range == (3.5, -0.5)
    assert chart.figure.layout.yaxis2.tickvals == (0, 1)
