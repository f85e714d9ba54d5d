"""The dimensions that make a score."""

import numpy as np
import pytest
import torch

from attnviz import Mechanism
from attnviz.figures import products
from attnviz.figures.bars import AFTER, NEGATIVE
from attnviz.figures.products import scaled
from attnviz.scores import ScaledDot


def test_the_bars_add_up_to_the_score(random_inputs) -> None:
    inputs = random_inputs(heads=4, kv_heads=2, d_k=16)
    for score, scale in ((ScaledDot(), 16**-0.5), (ScaledDot(0.3), 0.3)):
        raw = Mechanism(score)(inputs).raw
        for head, q, k in ((0, 1, 2), (3, 4, 6)):
            vectors = inputs.query[head, q].numpy(), inputs.key[head // 2, k].numpy()
            chart = products(*vectors, scale=scale)
            assert chart.figure.data[0].y.sum() == pytest.approx(float(raw[head, q, k]), abs=1e-5)
            np.testing.assert_allclose(chart.figure.data[0].y, vectors[0] * vectors[1] * scale, rtol=1e-5)
            assert chart.figure.data[0].x.tolist() == list(range(16))


def test_the_largest_bars_are_named_and_each_is_said() -> None:
    query, key = np.array([1.0, -3.0, 0.5, 2.0, 0.0]), np.array([0.5, 2.0, 1.0, 2.0, 4.0])
    chart = products(query, key, scale=0.5)
    assert {note.text: note.y for note in chart.figure.layout.annotations} == {"1": -3.0, "3": 2.0, "0": 0.25}
    assert chart.figure.data[0].marker.color == (AFTER, NEGATIVE, AFTER, AFTER, AFTER)
    points = chart.spec.sentences
    assert len(points) == 5
    assert points[1] == "Dimension 1: (−3.00) × 2.00 / √4 = −3.00"
    assert products(query, key).spec.sentences[3] == "Dimension 3: 2.00 × 2.00 = 4.00"


@pytest.mark.parametrize(
    ("scale", "written"),
    [
        (1.0, ""),
        (32**-0.5, " / √32"),
        (float(np.float32(80**-0.5)), " / √80"),
        (0.0625, " / √256"),
        (0.3, " × 0.30"),
        (2.0, " × 2.00"),
        (-0.5, " × (−0.50)"),
        (0.0, " × 0.00"),
        (1e-200, " × < 0.0001"),
    ],
)
def test_a_scale_is_written_as_it_is_known(scale: float, written: str) -> None:
    assert scaled(scale) == written


@pytest.mark.parametrize("query", [[5.0, -0.1, 0.01], [-0.1, 5.0, 4.0], [1.0, -1.0, 0.5], [-3.0, -2.0, -1.0]], ids=str)
def test_a_name_has_room_between_its_bar_and_the_end_of_the_axis(query: list[float]) -> None:
    """The plot is at least 140 pixels high, and a number takes 18."""
    chart = products(np.array(query), np.ones(3))
    low, high = chart.figure.layout.yaxis.range
    for note in chart.figure.layout.annotations:
        assert (high - note.y if note.yanchor == "bottom" else note.y - low) / (high - low) * 140 >= 18


@pytest.mark.parametrize("query", [[1.0, -2.0], [1.0, 2.0], [-1.0, -2.0], [0.0, 0.0]], ids=str)
def test_every_bar_has_room(query: list[float]) -> None:
    chart = products(np.array(query), np.ones(2))
    low, high = chart.figure.layout.yaxis.range
    assert low < high
    assert all(low <= y <= high for y in [0, *chart.figure.data[0].y])


def test_vectors_of_torch_can_be_given_as_numpy() -> None:
    chart = products(torch.ones(3).numpy(), torch.ones(3).numpy())
    assert chart.figure.data[0].y.tolist() == [1, 1, 1]
