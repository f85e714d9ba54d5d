"""The peaks of a long row of weights, which a picture of few points must keep."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attnviz.language import _


def peak_positions(weights: Float[Tensor, " keys"], most: int = 1000) -> Int[Tensor, " bins"]:
    """Returns the index of the largest weight in each of at most `most` bins of keys, which are about equally wide.

    NaN is a masked key; of a bin in which all are masked it is the first. Raises ValueError if there is no key.

    Example:
        >>> peak_positions(torch.tensor([0.1, 0.5, torch.nan, 0.2, torch.nan, torch.nan]), 3)
        tensor([1, 3, 4])
    """
    keys = len(weights)
    if not keys:
        raise ValueError(_("A row without keys has no peaks."))
    bins = min(most, keys)
    edges = torch.arange(bins + 1) * keys // bins
    bin_of = torch.repeat_interleave(torch.arange(bins), edges.diff())
    values = weights.detach().cpu().nan_to_num(nan=-torch.inf)
    largest = torch.full((bins,), -torch.inf, dtype=values.dtype).scatter_reduce(0, bin_of, values, "amax")
    peaks = torch.nonzero(values == largest[bin_of]).flatten()
    return torch.full((bins,), keys).scatter_reduce(0, bin_of[peaks], peaks, "amin")
