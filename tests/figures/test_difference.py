"""What changes, as a figure."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from attnviz.figures.bars import MOST_KEYS, bars
from attnviz.figures.difference import difference_heatmap, outline
from attnviz.figures.shares import word_shares

TOKENS = ("a", "b", "c")


def test_the_scale_of_changes_is_centered_at_zero() -> None:
    before = np.array([[0.1, 0.5, np.nan], [0, 0, np.nan], [0.2, 0, 0]], dtype="f4")
    after = np.array([[0.2, np.nan, np.nan], [0, 0, 0.25], [0.2, 0, 0]], dtype="f4")
    chart = difference_heatmap(before, after, TOKENS, TOKENS, charts=("a", "b"))
    expected = np.array([[0.1, -0.5, np.nan], [0, 0, 0.25], [0, 0, 0]], dtype="f4")
    np.testing.assert_allclose(chart.figure.data[0].z, expected, rtol=1e-6)
    only_before, only_after = (
        {(float(y), float(x)) for x, y in zip(line.x, line.y, strict=True) if not np.isnan(x + y)}
        for line in chart.figure.data[1:]
    )
    assert only_before == {(y, x) for y in (-0.5, 0.5) for x in (0.5, 1.5)}
    assert only_after == {(y, x) for y in (0.5, 1.5) for x in (1.5, 2.5)}
    axis = chart.figure.layout[chart.figure.data[0].coloraxis]
    assert axis.cmax == -axis.cmin == np.float32(0.5)
    assert chart.spec.difference.charts == ("a", "b")


def test_no_change_at_all_still_has_a_scale() -> None:
    for weights in (np.zeros((3, 3), dtype="f4"), np.full((3, 3), np.nan, dtype="f4")):
        chart = difference_heatmap(weights, weights, TOKENS, TOKENS, charts=("a", "b"))
        assert chart.figure.layout[chart.figure.data[0].coloraxis].cmax == 1


@given(arrays(bool, array_shapes(min_dims=2, max_dims=2, max_side=7)))
def test_an_outline_runs_between_cells_that_differ_and_nowhere_else(cells: np.ndarray) -> None:
    x, y = outline(cells)
    drawn = set()
    for (x0, x1, gap_x), (y0, y1, gap_y) in zip(x.reshape(-1, 3), y.reshape(-1, 3), strict=True):
        assert np.isnan(gap_x) or np.isnan(gap_y)
        assert (x0 == x1) != (y0 == y1)
        for at in np.arange(min(x0, x1), max(x0, x1)):
            drawn.add(("across", float(at + 0.5), float(y0)))
        for at in np.arange(min(y0, y1), max(y0, y1)):
            drawn.add(("down", float(x0), float(at + 0.5)))

    def at(row: int, column: int) -> bool:
        inside = 0 <= row < cells.shape[0] and 0 <= column < cells.shape[1]
        return inside and bool(cells[row, column])

    expected = set()
    for row in range(cells.shape[0] + 1):
        for column in range(cells.shape[1] + 1):
            if at(row, column) != at(row - 1, column):
                expected.add(("across", float(column), row - 0.5))
            if at(row, column) != at(row, column - 1):
                expected.add(("down", column - 0.5, float(row)))
    assert drawn == expected


def test_bars_show_the_keys_that_changed_most_in_their_order() -> None:
    before = np.full(100, 0.01, dtype="f4")
    after = before.copy()
    after[[7, 90]] = 0.2
    after[50] = np.nan
    chart = bars(before, after, [f"token {i}" for i in range(100)])
    shown = list(chart.figure.layout.xaxis.ticktext)
    assert len(shown) == MOST_KEYS
    assert [name for name in shown if name in ("token 7", "token 50", "token 90")] == [
        "token 7",
        "token 50",
        "token 90",
    ]
    assert np.isnan(chart.figure.data[1].y[shown.index("token 50")])
    assert chart.figure.data[0].name == "A"


def test_words_of_a_long_text_that_are_the_same_have_their_positions() -> None:
    words = ["the"] * 40 + ["cat"]
    change = np.arange(41.0)
    shown = bars(np.zeros(41), change, words).figure.layout.xaxis.ticktext
    assert shown == (*(f"{i} · the" for i in range(41 - MOST_KEYS, 40)), "cat")
    sentences = word_shares(change, words).spec.sentences
    assert (sentences[0].partition(":")[0], sentences[-1].partition(":")[0]) == (f"{41 - MOST_KEYS} · the", "cat")
    assert bars(np.zeros(2), np.ones(2), ["the", "the"]).figure.layout.xaxis.ticktext == ("the", "the")


@given(st.text(max_size=5))
def test_no_token_is_markup_in_bars(token: str) -> None:
    [written] = bars(np.ones(1, dtype="f4"), np.ones(1, dtype="f4"), [token]).figure.layout.xaxis.ticktext
    assert "<" not in written
