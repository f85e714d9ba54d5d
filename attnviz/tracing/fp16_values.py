"""Values in half precision, to save memory for long texts."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from attnviz.inputs import Inputs
from attnviz.layer import Layer

EXACT = 64 << 20  # bytes of queries, keys and values up to which all of a capture are held as they are
# The range of a head's largest number in which float16 holds each number to within 2⁻¹¹ of the largest.
LEAST_NUMBER, LARGEST_NUMBER = 2.0**-14, 65_504.0


def with_fp16_values(layers: Sequence[Layer]) -> list[Layer]:
    """Returns the same layers, with float16 values if all layers take more than EXACT bytes together.

    Queries, keys and finished weights are unchanged, and so are values beyond the range of float16.
    """
    computed = [layer.inputs for layer in layers if isinstance(layer.inputs, Inputs)]
    if sum(tensor.nbytes for one in computed for tensor in (one.query, one.key, one.value)) <= EXACT:
        return list(layers)
    return [
        replace(layer, inputs=replace(layer.inputs, value=layer.inputs.value.half()))
        if isinstance(layer.inputs, Inputs) and _fits(layer.inputs.value)
        else layer
        for layer in layers
    ]


def _fits(value: Tensor) -> bool:
    least, most = value.flatten(1).aminmax(dim=1)
    return all(LEAST_NUMBER <= size < LARGEST_NUMBER or size == 0 for size in torch.maximum(-least, most).tolist())
