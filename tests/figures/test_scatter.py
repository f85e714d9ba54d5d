"""Heads as points."""

import numpy as np
import pytest

from attnviz.figures import scatter

X, Y = np.array([1.0, 2.5, np.nan, 4.0]), np.array([0.1, 0.9, 0.5, 0.2])
NAMES, LAYERS = ["a", "b", "c", "d"], np.array([0, 0, 1, 2])


def test_every_head_is_a_point_at_its_measures_in_the_color_of_its_layer() -> None:
    chart = scatter(X, Y, NAMES, LAYERS, titles=("entropy", "distance"))
    points = chart.figure.data[0]
    np.testing.assert_array_equal(points.x, X)
    np.testing.assert_array_equal(points.y, Y)
    assert points.marker.color.tolist() == [0, 0, 1, 2]
    assert (points.marker.cmin, points.marker.cmax) == (0, 2)
    assert chart.spec.sentences == tuple(NAMES)
    assert (chart.figure.layout.xaxis.title.text, chart.figure.layout.yaxis.title.text) == ("entropy", "distance")


def test_the_axes_have_room_for_every_point() -> None:
    chart = scatter(X, Y, NAMES, LAYERS)
    for axis, values in ((chart.figure.layout.xaxis, X), (chart.figure.layout.yaxis, Y)):
        assert axis.range[0] < np.nanmin(values) <= np.nanmax(values) < axis.range[1]


@pytest.mark.parametrize("values", [np.full(4, 3.0), np.full(4, np.nan), np.zeros(0)], ids=str)
def test_equal_or_no_values_have_axes_too(values: np.ndarray) -> None:
    chart = scatter(values, values, NAMES[: len(values)], LAYERS[: len(values)])
    low, high = chart.figure.layout.xaxis.range
    assert low < high
    assert np.isfinite([low, high]).all()


def test_chosen_heads_have_a_ring() -> None:
    rings = scatter(X, Y, NAMES, LAYERS, chosen=[3, 1]).figure.data[1]
    assert list(zip(rings.x, rings.y, strict=True)) == [(4.0, 0.2), (2.5, 0.9)]
    assert len(scatter(X, Y, NAMES, LAYERS).figure.data[1].x) == 0


def test_one_layer_needs_no_scale_of_layers() -> None:
    assert scatter(X, Y, NAMES, LAYERS).figure.data[0].marker.showscale
    assert not scatter(X, Y, NAMES, np.zeros(4, dtype=int)).figure.data[0].marker.showscale


def test_the_farthest_outliers_have_their_labels_apart_from_each_other() -> None:
    x, y = np.r_[np.linspace(0, 1, 40), 0.5, 0.5, 9.0, np.nan], np.r_[np.linspace(0, 1, 40), 7.0, 7.01, 0.5, 99.0]
    names = [f"n{i}" for i in range(44)]
    labels = scatter(x, y, names, np.zeros(44, dtype=int), labels=names).figure.data[2]
    assert set(labels.text) == {"n41", "n42"}  # n40 is beside n41, and n43 has no point
    assert list(zip(labels.x, labels.y, strict=True)) == [(x[int(name[1:])], y[int(name[1:])]) for name in labels.text]


def test_a_chosen_head_has_its_label() -> None:
    labels = scatter(X, Y, NAMES, LAYERS, chosen=[1, 2], labels=NAMES).figure.data[2]
    assert labels.text == ("b",)  # c has no point


def test_labels_are_beside_other_points_and_within_the_axes() -> None:
    x, y = np.r_[np.linspace(0, 1, 40), 0.5, 0.5, 9.0], np.r_[np.linspace(0, 1, 40), 7.0, 7.6, 0.5]
    names = [f"n{i}" for i in range(43)]
    labels = scatter(x, y, names, np.zeros(43, dtype=int), chosen=[40], labels=names).figure.data[2]
    sides = dict(zip(labels.text, labels.textposition, strict=True))
    assert sides == {"n40": "middle right", "n41": "middle right", "n42": "top center"}


@pytest.mark.parametrize("values", [np.full(4, 3.0), np.full(4, np.nan), np.zeros(0), X], ids=str)
def test_values_without_outliers_have_no_labels(values: np.ndarray) -> None:
    names = NAMES[: len(values)]
    assert len(scatter(values, values, names, LAYERS[: len(values)], labels=names).figure.data[2].x) == 0


def test_all_but_one_equal_is_one_outlier() -> None:
    values = np.array([0.0, 0.0, 0.0, 0.0, 1.0])
    [label] = scatter(values, values, list("abcde"), np.zeros(5, dtype=int), labels=list("abcde")).figure.data[2].text
    assert label == "e"
