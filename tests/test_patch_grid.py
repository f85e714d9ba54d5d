"""The grid of the patches of an image, on its axis."""

from dataclasses import replace

import pytest
import torch

from attnviz.inputs import PatchGrid


def test_weights_at_the_positions_are_an_image():
    grid = PatchGrid(2, 3, (1, 2, 3, 6, 5, 4))
    weights = torch.tensor([9, 0, 1, 2, 5, 4, 3])
    assert weights[list(grid.positions)].reshape(grid.rows, grid.columns).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert grid.named("abcdefg") == ("a", "0·0", "0·1", "0·2", "1·2", "1·1", "1·0")


@pytest.mark.parametrize(
    ("rows", "columns", "positions"),
    [(0, 0, ()), (2, 2, (0, 1, 2)), (1, 2, (3, 3)), (1, 2, (0, -1)), (-1, -2, (0, 1))],
)
def test_a_grid_has_one_position_for_each_patch(rows, columns, positions):
    with pytest.raises(ValueError, match="Give the position of each patch"):
        PatchGrid(rows, columns, positions)


def test_inputs_have_a_grid_for_each_axis(random_inputs):
    inputs, grid = random_inputs(queries=3, keys=5), PatchGrid(2, 2, (1, 2, 3, 4))
    assert inputs.grids == ()
    assert replace(inputs, key_grids=(grid,)).grids == (grid,)
    assert replace(inputs, query_grids=(PatchGrid(1, 1, (2,)),)).grids == (PatchGrid(1, 1, (2,)),)
    with pytest.raises(ValueError, match="query_grids has a patch at position 4, but there are 3 tokens"):
        replace(inputs, query_grids=(grid,))
