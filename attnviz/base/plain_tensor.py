"""Numbers that torch and others store in many ways, as plain tensors."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnviz.base.formatting import dimensions
from attnviz.base.language import value_error


def plain_tensor(tensor: Tensor, name: str) -> Tensor:
    """Returns a tensor as torch computes with it: a sparse, quantized or masked one, or one of float8, with a number
    for each place, NaN where it is masked. Another is returned as it is. Raises ValueError if it has no numbers, as on
    the meta device, or rows of unlike lengths.

    Example:
        >>> plain_tensor(torch.eye(2).to_sparse(), "weights")
        tensor([[1., 0.],
                [0., 1.]])
    """
    if tensor.is_nested:
        raise value_error("{name} is a nested tensor, which has no shape of its own. Give one of its parts.", name=name)
    if tensor.is_meta:
        raise value_error(
            "{name} is on the meta device: it has the shape {shape} and no numbers. Load its numbers first.",
            name=name,
            shape=dimensions(tensor.shape),
        )
    if isinstance(tensor, torch.masked.MaskedTensor):
        return tensor.get_data().float().masked_fill(~tensor.get_mask(), torch.nan)
    try:
        tensor = tensor.dequantize() if tensor.is_quantized else tensor
        tensor = tensor.to_dense() if tensor.layout is not torch.strided else tensor.resolve_neg()
        return tensor.float() if tensor.is_floating_point() and tensor.itemsize < 2 else tensor
    except RuntimeError as error:  # of a type without a conversion, and of more places than there is memory for
        raise value_error(
            "{name}, {shape} of {dtype}, cannot be made a dense tensor of float32 here.",
            name=name,
            shape=dimensions(tensor.shape),
            dtype=tensor.dtype,
        ) from error


def plain_array(values: Any) -> np.ndarray | None:
    """Returns an array, or what can be made one, in the order of bytes of this machine and without a mask: NaN where it
    is masked. None if it holds no real numbers."""
    if callable(getattr(values, "toarray", None)):  # of scipy.sparse
        values = values.toarray()
    try:
        array: Any = values if isinstance(values, np.ma.MaskedArray) else np.asarray(values)
    except (TypeError, ValueError, RuntimeError):  # of another library, or of rows of unlike lengths
        return None
    if array.dtype.kind not in "fiub":
        return None
    if isinstance(array, np.ma.MaskedArray):
        array = np.ma.filled(array.astype("f8"), np.nan)
    return np.ascontiguousarray(array, "f8" if array.dtype.itemsize > 8 else array.dtype.newbyteorder("="))
