"""The curve of one query."""

import numpy as np
import torch

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


def test_a_query_that_may_look_at_nothing_has_no_ring() -> None:
    chart = query_curve(np.full(2, np.nan), np.arange(2), "it", ["a", "b"])
    assert len(chart.figure.data) == 1
    assert not chart.figure.layout.shapes
