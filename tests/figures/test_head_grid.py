"""Heads as a grid of colors."""

import numpy as np

from attnviz.figures import head_grid
from attnviz.figures.themes import COLOR_AXES

VALUES = np.array([[0.0, 0.25, 0.5], [2.0, np.nan, 1.0]])
NAMES = ["a", "b", "c", "d", "", "f"]


def test_every_cell_is_a_head_and_a_click_finds_it() -> None:
    chart = head_grid(VALUES, NAMES)
    np.testing.assert_array_equal(chart.figure.data[0].z, VALUES.astype("f4"))
    assert list(chart.spec.names) == NAMES
    assert [chart.spec.head_at(row, column) for row in range(2) for column in range(3)] == list(range(6))
    assert chart.spec.head_at(2, 0) is None


def test_colors_go_from_0_to_the_largest() -> None:
    axis = COLOR_AXES["weights"]
    whole = head_grid(VALUES, NAMES).figure.layout[axis]
    assert (whole.cmin, whole.cmax) == (0, 2)
    assert head_grid(VALUES, NAMES, largest=8.0).figure.layout[axis].cmax == 8
    for nothing in (np.full((1, 2), np.nan), np.zeros((1, 2))):
        assert head_grid(nothing, ["", ""]).figure.layout[axis].cmax == 1


def test_chosen_heads_are_framed() -> None:
    [frame] = head_grid(VALUES, NAMES, chosen=[(1, 2)]).figure.layout.shapes
    assert ((frame.y0 + frame.y1) / 2, (frame.x0 + frame.x1) / 2) == (1, 2)


def test_axes_name_whole_rows_and_columns_and_as_many_as_fit() -> None:
    few, many = head_grid(VALUES, NAMES), head_grid(np.zeros((3, 100)), [""] * 300)
    assert list(few.figure.layout.xaxis.tickvals) == [0, 1, 2]
    assert list(few.figure.layout.yaxis.tickvals) == [0, 1]
    named = head_grid(VALUES, NAMES, layer_names=["encoder 0", "<b>"]).figure.layout.yaxis
    assert list(named.ticktext) == ["encoder 0", "&lt;b&gt;"]
    assert list(many.figure.layout.xaxis.tickvals) == list(range(0, 100, 7))


def test_many_layers_run_from_left_to_right() -> None:
    values = np.random.default_rng(0).random((30, 2))
    names = [f"{layer} {head}" for layer in range(30) for head in range(2)]
    chart = head_grid(values, names, chosen=[(29, 1)], layer_names=[str(layer) for layer in range(30)])
    np.testing.assert_array_equal(chart.figure.data[0].z, values.T.astype("f4"))
    assert chart.spec.names[chart.spec.head_at(row=1, column=29)] == "29 1"
    assert list(chart.figure.layout.xaxis.ticktext) == [str(layer) for layer in range(0, 30, 2)]
    [frame] = chart.figure.layout.shapes
    assert ((frame.y0 + frame.y1) / 2, (frame.x0 + frame.x1) / 2) == (1, 29)
