"""The example pictures."""

import io

import numpy as np
import pytest
from PIL import Image

from attnviz.models.drawings import DRAWINGS, Drawing, drawing, drawing_file


@pytest.mark.parametrize("name", [*DRAWINGS])
def test_a_drawing_is_the_same_at_any_size(name: Drawing) -> None:
    small, large = drawing(48, 64, name), drawing(96, 128, name)
    assert bool(((small >= 0) & (small <= 1)).all())
    assert float((large[:, ::2, ::2] - small).abs().mean()) < 0.03
    read = np.asarray(Image.open(io.BytesIO(drawing_file(48, 64, name)))) / 255
    np.testing.assert_allclose(read, small.permute(1, 2, 0), atol=0.003)
    assert len(np.unique(read.reshape(-1, 3), axis=0)) >= 3
