"""One head as a figure."""

import numpy as np

from attnviz.figures import heatmap


def weights(queries: int, keys: int) -> np.ndarray:
    return np.random.default_rng(0).random((queries, keys), dtype="f4")


def test_rows_are_queries_from_the_top_and_columns_keys() -> None:
    shown = weights(2, 3)
    chart = heatmap(shown, ("q0", "q1"), ("k0", "k1", "k2"), largest=0.5)
    np.testing.assert_array_equal(chart.figure.data[0].z, shown)
    assert chart.figure.layout.yaxis.range == (1.5, -0.5)
    assert chart.figure.layout.xaxis.range == (-0.5, 2.5)
    assert chart.figure.layout.yaxis.ticktext == ("q0", "q1")
    assert chart.figure.layout.xaxis.ticktext == ("k0", "k1", "k2")
    assert (chart.figure.layout.coloraxis.cmin, chart.figure.layout.coloraxis.cmax) == (0, 0.5)
    assert (chart.spec.query_tokens, chart.spec.key_tokens) == (("q0", "q1"), ("k0", "k1", "k2"))


def test_equal_tokens_keep_rows_of_their_own() -> None:
    chart = heatmap(weights(3, 3), ("a", "a", "a"), ("a", "a", "a"))
    assert chart.figure.layout.yaxis.tickvals == (0, 1, 2)
    assert np.shape(chart.figure.data[0].z) == (3, 3)


def test_many_tokens_are_not_all_written_on_the_axis_but_all_are_known() -> None:
    tokens = [str(i) for i in range(500)]
    chart = heatmap(weights(500, 500), tokens, tokens)
    assert len(chart.figure.layout.xaxis.ticktext) <= 40
    assert list(chart.spec.key_tokens) == tokens


def test_markup_is_escaped_for_plotly_and_plain_for_sentences() -> None:
    chart = heatmap(weights(1, 1), ("<s>",), ("<b>",))
    assert chart.figure.layout.yaxis.ticktext == ("&lt;s&gt;",)
    assert chart.spec.key_tokens == ("<b>",)


def test_negative_weights_take_the_scale_that_is_centered_at_zero() -> None:
    chart = heatmap(np.array([[0.5, -0.25]], dtype="f4"), ("q",), ("k0", "k1"), largest=0.5)
    axis = chart.figure.layout[chart.figure.data[0].coloraxis]
    assert (axis.cmin, axis.cmax) == (-0.5, 0.5)
    assert chart.figure.data[0].coloraxis != heatmap(weights(1, 2), ("q",), ("k0", "k1")).figure.data[0].coloraxis


def test_marked_cells_have_a_light_and_a_dark_outline_within_them() -> None:
    chart = heatmap(weights(3, 4), "abc", "wxyz", marked=[(0, 3), (2, 1)])
    assert len({one.line.color for one in chart.figure.layout.shapes}) == 2
    for row, column in ((0, 3), (2, 1)):
        lines = [
            one for one in chart.figure.layout.shapes if (one.x0 + one.x1, one.y0 + one.y1) == (2 * column, 2 * row)
        ]
        assert len(lines) == 2
        for one in lines:
            assert column - 0.5 < one.x0 < one.x1 < column + 0.5
            assert row - 0.5 < one.y0 < one.y1 < row + 0.5


def test_blank_cells_are_covered_and_the_names_of_blank_rows_faint() -> None:
    shown = weights(3, 3)
    shown[2] = np.nan
    shown[0, 1:] = np.nan
    blank = np.zeros((3, 3), dtype=bool)
    blank[2, :2] = True
    chart = heatmap(shown, ("a", "b", "<s>"), ("x", "y", "z"), blank=blank)
    np.testing.assert_array_equal(~np.isnan(chart.figure.data[1].z), blank)
    assert [label.startswith("<span") for label in chart.spec.query_labels] == [False, False, True]
    assert "&lt;s&gt;" in chart.spec.query_labels[2]
    assert chart.figure.layout.yaxis.ticktext == chart.spec.query_labels
    assert chart.spec.key_labels == ("x", "y", "z")


def test_a_cell_can_have_a_sentence_of_its_own() -> None:
    chart = heatmap(weights(2, 2), "ab", "xy", cell_sentences={(1, 0): "{query} is not there yet."})
    assert chart.spec.cell_sentences == {(1, 0): "{query} is not there yet."}
    assert len(heatmap(weights(2, 2), "ab", "xy").figure.data) == 1
