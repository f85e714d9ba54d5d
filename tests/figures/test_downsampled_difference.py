import numpy as np
import pytest
import torch

from attnviz import Inputs, Mechanism, downsample
from attnviz.analysis.head_maps import head_map
from attnviz.figures.downsampled_difference import downsampled_difference
from attnviz.masks import Causal, SlidingWindow


def inputs_of(n):
    generator = torch.Generator().manual_seed(n)
    tokens = tuple(map(str, range(n)))
    return Inputs(*(torch.randn(1, n, 4, generator=generator) for _ in range(3)), tokens, tokens)


def test_each_cell_has_the_change_of_its_mass_and_rows_add_up_to_nothing():
    inputs, masks = inputs_of(12), (Causal(), SlidingWindow(3))
    small = [downsample(inputs, Mechanism(mask=mask), cells=(4, 3)) for mask in masks]
    z = downsampled_difference(*small).figure.data[0].z
    before, after = (head_map(inputs, Mechanism(mask=mask), 0).nan_to_num(0) for mask in masks)
    change = (after - before).view(4, 3, 3, 4).sum((1, 3)).numpy() / 3
    allowed = Causal().matrix(12, 12).view(4, 3, 3, 4).any(3).any(1).numpy()
    np.testing.assert_allclose(z, np.where(allowed, change, np.nan), atol=1e-6)
    np.testing.assert_allclose(np.nansum(z, axis=1), 0, atol=1e-6)


def test_maps_in_other_cells_are_refused():
    inputs = inputs_of(12)
    with pytest.raises(ValueError, match="same cells"):
        downsampled_difference(*(downsample(inputs, Mechanism(), cells=(cells, 3)) for cells in (4, 5)))
