"""The peaks of a long row of weights, which a picture of few points must keep."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attnviz.analysis.map_cells import Axis, grouped_maxima
from attnviz.base.language import value_error


def peak_positions(weights: Float[Tensor, " keys"], most: int = 1000) -> Int[Tensor, " bins"]:
    """Returns the index of the largest weight in each of at most `most` bins of keys, which are about equally wide.

    NaN is a masked key; of a bin in which all are masked it is the first. Raises ValueError if there is no key.

    Example:
        >>> peak_positions(torch.tensor([0.1, 0.5, torch.nan, 0.2, torch.nan, torch.nan]), 3)
        tensor([1, 3, 4])
    """
    keys = len(weights)
    if not keys:
        raise value_error("A row without keys has no peaks.")
    bins = Axis(torch.arange(keys), min(most, keys))
    values = weights.detach().cpu().nan_to_num(nan=-torch.inf)
    return grouped_maxima(values[:, None], bins.sizes)[1][:, 0]
