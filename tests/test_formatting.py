"""How numbers and sizes are written."""

import math

import pytest

from attnviz.formatting import byte_size, fixed, percent, significant


@pytest.mark.parametrize(
    ("share", "text"), [(0.0, "0%"), (0.126, "13%"), (0.99, "99%"), (0.9969, "99.6%"), (0.9999, "99.9%"), (1.0, "100%")]
)
def test_only_the_whole_is_100_percent(share: float, text: str) -> None:
    assert percent(share, 2) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 bytes"), (999, "999 bytes"), (1000, "0.977 KB"), (1 << 20, "1 MB"), (5 << 40, "5.0 TB")]
)
def test_sizes_have_three_digits_at_most(count: int, text: str) -> None:
    assert byte_size(count) == text


def test_zero_has_no_sign_and_infinity_its_own() -> None:
    assert [fixed(-0.001), fixed(-math.inf), fixed(math.inf)] == ["0.00", "−∞", "∞"]
    assert [significant(-0.0), significant(-math.inf), significant(-1e-7)] == ["0", "−∞", "−1e−07"]
