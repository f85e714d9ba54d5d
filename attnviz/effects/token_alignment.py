"""Which tokens of two texts belong together."""

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import TypeAlias

# Pairs of a position in the clean text and that in the corrupted text.
Alignment: TypeAlias = tuple[tuple[int, int], ...]


def alignment(clean_ids: Sequence[int], corrupted_ids: Sequence[int]) -> Alignment:
    """Returns pairs of positions (clean, corrupted) of two texts, in which each position is at most once.

    Texts of the same number of tokens are aligned position by position. In others, runs of tokens that both have are
    aligned, and a run that is replaced by another of the same length; what is left belongs to nothing (Ratcliff &
    Metzener 1988, "Pattern Matching: The Gestalt Approach", in Python's difflib).

    Example:
        >>> alignment([1, 2, 3, 4], [1, 5, 6, 3, 4])
        ((0, 0), (2, 3), (3, 4))
    """
    if len(clean_ids) == len(corrupted_ids):
        return tuple((position, position) for position in range(len(clean_ids)))
    runs = SequenceMatcher(None, clean_ids, corrupted_ids, autojunk=False).get_opcodes()
    return tuple(
        pair
        for _kind, start, end, other_start, other_end in runs
        if end - start == other_end - other_start
        for pair in zip(range(start, end), range(other_start, other_end), strict=True)
    )
