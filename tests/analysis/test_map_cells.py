"""Peaks of a row against a loop over its bins."""

import pytest
import torch

from attnviz.analysis.map_cells import peak_positions


@pytest.mark.parametrize("keys", [1, 2, 7, 999, 1000, 1001, 2503])
@pytest.mark.parametrize("most", [1, 3, 1000])
def test_each_bin_keeps_its_first_largest_weight(keys: int, most: int) -> None:
    torch.manual_seed(keys)
    weights = torch.rand(keys).mul(8).round()  # with equal ones
    weights[torch.rand(keys) < 0.3] = torch.nan
    weights[keys // 3 : keys // 2] = torch.nan
    peaks = peak_positions(weights, most).tolist()
    bins = min(most, keys)
    assert len(peaks) == bins
    for i, peak in enumerate(peaks):
        part = range(i * keys // bins, (i + 1) * keys // bins)
        allowed = [key for key in part if not weights[key].isnan()]
        assert peak == (max(allowed, key=lambda key: (float(weights[key]), -key)) if allowed else part[0])


def test_a_row_without_keys_is_refused() -> None:
    with pytest.raises(ValueError, match="without keys"):
        peak_positions(torch.zeros(0))
