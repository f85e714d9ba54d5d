"""The curve of one query."""

import numpy as np
import pytest
import torch

from attnviz.figures.downsampled_map import Scale
from attnviz.figures.query_curve import query_curve


def test_a_curve_has_a_gap_a_ring_and_a_sentence_for_each_point() -> None:
    weights = torch.tensor([0.1, torch.nan, 0.7])
    chart = query_curve(weights, torch.tensor([0, 5, 9]), "<b>", ["a", "c", ""], shaded=(5, 10))
    line, ring = chart.figure.data
    np.testing.assert_array_equal(line.x, [0, 5, 9])
    np.testing.assert_allclose(line.y, weights)
    assert (ring.x, ring.y) == ((9,), (weights[2],))
    [shape] = chart.figure.layout.shapes
    assert (shape.x0, shape.x1) == (4.5, 9.5)
    assert chart.spec.sentences == (
        "<b> gives 0.10 of its attention to a.",
        "<b> may not look at c.",
        "<b> gives 0.70 of its attention to ∅.",
    )
    assert chart.spec.bars


@pytest.mark.parametrize(("scale", "middle"), [(Scale.SQUARE_ROOT, 0.2), (Scale.LOGARITHMIC, 0.008)])
def test_the_axis_has_a_scale_and_true_numbers(scale: Scale, middle: float) -> None:
    weights = np.array([0.2, np.nan, 0.8, 0.008, 0.0])
    chart = query_curve(weights, np.arange(5), "it", list("abcde"), scale=scale)
    y, axis = chart.figure.data[0].y, chart.figure.layout.yaxis
    assert y[2] == axis.tickvals[2] == 1
    assert float(axis.ticktext[1]) == middle
    assert y[weights == middle] == pytest.approx([axis.tickvals[1]])
    assert y[4] == 0
    assert np.isnan(y[1])
    assert chart.spec.sentences[0] == "it gives 0.20 of its attention to a."


def test_a_query_that_may_look_at_nothing_has_no_ring() -> None:
    chart = query_curve(np.full(2, np.nan), np.arange(2), "it", ["a", "b"])
    assert len(chart.figure.data) == 1
    assert not chart.figure.layout.shapes
