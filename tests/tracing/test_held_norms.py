"""Norms with held scales: that they are torch's own, and affine while the scale is held."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor
from torch.nn.functional import layer_norm, normalize, rms_norm

from attnviz.tracing.held_norms import NORMS

WEIGHT, BIAS = torch.randn(2, 6, generator=torch.Generator().manual_seed(0))
CALLS = {
    "layer norm": (layer_norm, ((6,), WEIGHT, BIAS, 0.1)),
    "layer norm without bias": (layer_norm, ((6,), WEIGHT)),
    "layer norm alone": (layer_norm, ((6,),)),
    "layer norm over two axes": (layer_norm, ((3, 6),)),
    "RMS norm": (rms_norm, ((6,), WEIGHT, 0.1)),
    "RMS norm with torch's epsilon": (rms_norm, ((6,),)),
    "unit length": (normalize, ()),
    "unit sum": (normalize, (1.0, -1)),
    "unit length of small numbers": (normalize, (2.0, -1, 50.0)),
}


@pytest.mark.parametrize(("function", "args"), CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("size", [1e-4, 1.0])
def test_a_norm_with_a_held_scale_is_that_of_torch(function: Callable, args: tuple, size: float) -> None:
    x, change = torch.randn(2, 2, 3, 6, generator=torch.Generator().manual_seed(1)) * size
    held: list[Tensor] = []

    def hold(scale: Tensor) -> Tensor:
        held.append(scale)
        return held[0]

    norm = partial(NORMS[function], hold)
    torch.testing.assert_close(norm(x, *args), function(x, *args))
    there, back = norm(x + change, *args), norm(x - change, *args)
    torch.testing.assert_close((there + back) / 2, norm(x, *args), atol=1e-4, rtol=1e-4)
