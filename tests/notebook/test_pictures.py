"""The charts of a viewer."""

import numpy as np
import pytest
import torch

from attnviz.analysis.difference import difference
from attnviz.inputs import Inputs
from attnviz.masks import Causal
from attnviz.mechanism import Mechanism
from attnviz.notebook.layer_maps import apply, layer_maps
from attnviz.notebook.pictures import CELLS, MOST_CELLS, Pictures

RANDOM = torch.Generator().manual_seed(0)
WEIGHTS = torch.randn(3, 4, 6, 6, generator=RANDOM).softmax(-1)


def test_the_tiles_of_a_mosaic_are_the_heads_that_they_name() -> None:
    pictures = Pictures(layer_maps(WEIGHTS))
    sent = pictures.mosaic(0)
    assert len(sent["places"]) == 12
    assert sorted(sent["places"]) == [(layer, head) for layer in range(3) for head in range(4)]
    for tile, (layer, head) in enumerate(sent["places"]):
        assert sent["spec"].names[tile] == f"layer {layer}, head {head}"
    small = pictures.thumbnails[0]
    np.testing.assert_array_equal(small[2, 3], WEIGHTS[2, 3])


def test_layers_of_other_lengths_have_a_mosaic_of_their_own() -> None:
    layers = [*layer_maps(WEIGHTS), *layer_maps(WEIGHTS[:, :, :2])]
    pictures = Pictures(layers)
    assert pictures.groups == [[0, 1, 2], [3, 4, 5]]
    assert sorted(pictures.mosaic(1)["places"]) == [(layer, head) for layer in (3, 4, 5) for head in range(4)]


def test_two_sources_are_compared_cell_by_cell() -> None:
    inputs = Inputs(*torch.randn(3, 2, 5, 8, generator=RANDOM), tuple("abcde"), tuple("abcde"))
    pair = [layer_maps(apply(mechanism, inputs)) for mechanism in (Mechanism(), Mechanism(mask=Causal()))]
    pictures = Pictures(*pair, names=("full", "causal"), key="k")
    before, after, change = pictures.maps(0, 1)
    maps = [one["figure"]["data"][0]["z"] for one in (before, after, change)]
    np.testing.assert_array_equal(maps[2], difference(maps[0], maps[1]).numpy())
    assert [one["title"] for one in (before, after, change)] == ["full", "causal", "causal − full"]
    assert change["spec"].difference.charts == (before["key"], after["key"])
    assert before["figure"]["layout"]["coloraxis"]["cmax"] == after["figure"]["layout"]["coloraxis"]["cmax"]
    np.testing.assert_array_equal(pictures.thumbnails[0][0, 1], np.abs(maps[2]))


def test_only_sources_of_one_size_are_compared() -> None:
    with pytest.raises(ValueError, match="A has 3 layers of 4 × 6 × 6, B has 2 layers of 4 × 6 × 6"):
        Pictures(layer_maps(WEIGHTS), layer_maps(WEIGHTS[:2]))


def test_a_long_map_is_downsampled_and_its_parts_are_exact() -> None:
    length = 1100
    assert length**2 > MOST_CELLS
    weights = torch.rand(1, length, length, generator=RANDOM)
    pictures = Pictures(layer_maps(weights))
    [whole] = pictures.maps(0, 0)
    assert whole["span"] == (0, length, 0, length)
    assert whole["views"]
    spec, z = whole["spec"].downsampled, whole["figure"]["data"][0]["z"]
    rows, columns = z.shape
    assert rows == columns == CELLS
    row, column = 17, 200
    best = weights[0, spec.query_positions[row, column], spec.key_positions[row, column]]
    assert spec.maximum[row, column] == pytest.approx(float(best))
    np.testing.assert_allclose(z, np.sqrt(spec.mass / spec.mass.max()), rtol=1e-5)
    [part] = pictures.maps(0, 0, (100, 150, 300, 380))
    np.testing.assert_allclose(part["spec"].downsampled.maximum, weights[0, 100:150, 300:380], rtol=1e-6)
    assert part["spec"].downsampled.viewport
    with pytest.raises(ValueError, match="cannot be compared"):
        Pictures(layer_maps(weights), layer_maps(weights))


def test_the_colors_go_to_the_largest_weight_of_all_heads() -> None:
    [sent] = Pictures(layer_maps(WEIGHTS)).maps(0, 0)
    assert sent["figure"]["layout"]["coloraxis"]["cmax"] == pytest.approx(float(WEIGHTS.max()))
