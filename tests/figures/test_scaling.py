"""Lines against the width of the vectors."""

import numpy as np
import pytest

from attnviz.figures.scaling import scaling

WIDTHS = (2, 8, 32)
MEASURED = np.array([[2.1, 7.9, 33], [1, 0.99, 1.01]], dtype="f4")


def test_both_lines_and_the_theory_are_drawn_at_every_width() -> None:
    theory = np.array([[2, 8, 32], [1, 1, 1]], dtype="f4")
    chart = scaling(WIDTHS, MEASURED, 8, theory=theory, logarithmic=True)
    *dashes, plain, scaled = chart.figure.data
    assert [list(line.y) for line in dashes] == theory.tolist()
    assert [line.showlegend for line in dashes] == [True, False]
    np.testing.assert_array_equal([plain.y, scaled.y], MEASURED)
    assert (plain.name, scaled.name) == ("plain", "÷ √d")
    assert list(chart.figure.layout.xaxis.ticktext) == ["2", "8", "32"]
    assert chart.figure.layout.yaxis.type == "log"


@pytest.mark.parametrize("width", WIDTHS)
def test_the_marked_width_stands_on_a_band(width: int) -> None:
    chart = scaling(WIDTHS, MEASURED, width)
    [band] = chart.figure.layout.shapes
    assert (band.x0 + band.x1) / 2 == pytest.approx(WIDTHS.index(width))
    assert len(chart.figure.data) == 2
