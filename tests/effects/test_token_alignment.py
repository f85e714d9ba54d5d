"""Which tokens of two texts belong together."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnviz.effects import alignment

IDS = st.lists(st.integers(0, 5), max_size=12)


@pytest.mark.parametrize(
    ("clean", "corrupted", "expected"),
    [
        ([1, 2, 3], [4, 5, 6], [(0, 0), (1, 1), (2, 2)]),  # of the same length, whatever they are
        ([1, 2, 1], [2, 1, 1], [(0, 0), (1, 1), (2, 2)]),
        ([1, 2, 3, 4], [1, 2, 9, 3, 4], [(0, 0), (1, 1), (2, 3), (3, 4)]),  # a token more
        ([1, 2, 3, 4, 5], [1, 7, 8, 4, 5, 6], [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)]),  # two others in their place
        ([1, 2, 3], [4, 5], []),
        ([], [1], []),
    ],
)
def test_tokens_that_belong_together(clean: list[int], corrupted: list[int], expected: list[tuple[int, int]]) -> None:
    assert alignment(clean, corrupted) == tuple(expected)


@given(IDS, IDS)
def test_each_token_is_aligned_at_most_once_and_in_order(clean: list[int], corrupted: list[int]) -> None:
    pairs = alignment(clean, corrupted)
    for positions, ids in zip(zip(*pairs, strict=True), (clean, corrupted), strict=False):
        assert list(positions) == sorted({*positions})
        assert all(0 <= position < len(ids) for position in positions)
    assert alignment(clean, clean) == tuple((position, position) for position in range(len(clean)))
