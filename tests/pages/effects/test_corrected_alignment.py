"""Corrections of which tokens belong together, in links and on pairs of positions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnviz.effects import alignment
from attnviz.pages.effects.corrected_alignment import add_correction, corrected, format_corrections, parse_corrections

POSITIONS = st.integers(0, 9)
CORRECTIONS = st.lists(st.tuples(POSITIONS, st.none() | POSITIONS), max_size=6).map(tuple)


@given(CORRECTIONS)
def test_a_link_has_all_corrections(corrections: tuple[tuple[int, int | None], ...]) -> None:
    assert parse_corrections(format_corrections(corrections)) == corrections


@pytest.mark.parametrize("text", ["4", "-3", "4-3,5-2", "4--3", "12345-1", "²-1", "1-2 " * 201])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="Corrections of tokens are written as 4-3 5-"):
        parse_corrections(text)


@given(st.lists(POSITIONS, max_size=8), st.lists(POSITIONS, max_size=8), CORRECTIONS)
def test_each_token_stays_in_one_pair(clean: list[int], other: list[int], corrections) -> None:
    pairs = corrected(alignment(clean, other), corrections, (len(clean), len(other)))
    for positions, ids in zip(zip(*pairs, strict=True), (clean, other), strict=False):
        assert len({*positions}) == len(positions)
        assert all(0 <= position < len(ids) for position in positions)


@given(CORRECTIONS, st.integers(0, 4), st.none() | st.integers(0, 4))
def test_the_last_correction_holds(corrections, target: int, source: int | None) -> None:
    added = add_correction(corrections, target, source)
    pairs = {own: other for other, own in corrected(((0, 0), (1, 1)), added, (5, 5))}
    assert pairs.get(target) == source
