"""A map in fewer cells, as a figure."""

import numpy as np
import pytest
import torch

from attnviz import Inputs, Mechanism
from attnviz.analysis.downsampling import downsample
from attnviz.figures import downsampled_map
from attnviz.figures.downsampled_map import MASKED, CellColors, Quantity, Scale
from attnviz.masks import Causal


def test_every_cell_knows_its_tokens_and_axes_have_positions(random_inputs) -> None:
    inputs = random_inputs(queries=40, keys=40)
    tokens = tuple(f"<{i % 3}>" for i in range(40))
    inputs = Inputs(inputs.query, inputs.key, inputs.value, tokens, tokens)
    small = downsample(inputs, Mechanism(mask=Causal()), cells=(8, 10))
    chart = downsampled_map(small, tokens, tokens, largest=0.5)
    spec, weights = chart.spec, Mechanism(mask=Causal())(inputs).weights[0]
    assert chart.figure.data[0].z.shape == (8, 10)
    assert list(spec.query_labels) == [str(i * 5) for i in range(8)]
    assert list(spec.key_labels) == [str(i * 4) for i in range(10)]
    assert spec.sentences.masked == spec.sentences.empty_row == MASKED
    found = spec.downsampled
    for i in range(8):
        for j in range(10):
            query, key = int(found.query_positions[i, j]), int(found.key_positions[i, j])
            if small.maximum[i, j].isnan():
                assert query == key == -1
                continue
            assert found.tokens[found.query_tokens[i, j]] == f"<{query % 3}>"
            assert found.tokens[found.key_tokens[i, j]] == f"<{key % 3}>"
            torch.testing.assert_close(weights[query, key], small.maximum[i, j])
    assert not spec.downsampled.viewport
    assert {*spec.downsampled.tokens} <= {"<0>", "<1>", "<2>", ""}  # each once, however many positions have it
    # In a part in which each row or column is one token, it has the token's name.
    part = downsample(inputs, Mechanism(), cells=(8, 10), queries=slice(30, 38), keys=slice(0, 11))
    spec = downsampled_map(part, tokens, tokens, viewport=True).spec
    assert list(spec.query_labels) == [f"&lt;{i % 3}&gt;" for i in range(30, 38)]
    assert list(spec.key_labels) == [str(i) for i in range(10)]
    assert spec.downsampled.viewport


@pytest.mark.parametrize("scale", Scale)
@pytest.mark.parametrize("quantity", Quantity)
def test_a_color_can_be_read_back_as_the_number_that_it_shows(random_inputs, quantity: Quantity, scale: Scale) -> None:
    small = downsample(random_inputs(queries=40, keys=40), Mechanism(mask=Causal()), cells=(8, 10))
    figure = downsampled_map(small, colors=CellColors(quantity, scale)).figure
    places, numbers = figure.data[0].z, quantity.of_cells(small)
    largest = float(np.nanmax(numbers))
    read = np.vectorize(lambda place: scale.invert(place, largest), otypes=[float])(places)
    np.testing.assert_array_equal(np.isnan(places), small.allowed.numpy() == 0)
    if scale is Scale.LOGARITHMIC:
        numbers = np.maximum(numbers, 1e-4 * largest)
    np.testing.assert_allclose(read, numbers, rtol=1e-4)
    assert np.nanmin(places) >= 0
    assert np.nanmax(places) == pytest.approx(1)


def test_negative_numbers_have_colors_of_their_own() -> None:
    np.testing.assert_allclose(Scale.LINEAR.place(np.array([-0.5, 0, 0.5]), 1.0), [-0.5, 0, 0.5])
    np.testing.assert_allclose(Scale.LOGARITHMIC.place(np.array([-0.01, 0, 1e-9]), 1.0), [-0.5, 0, 0], atol=1e-12)
