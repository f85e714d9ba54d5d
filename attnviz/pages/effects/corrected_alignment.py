"""Which tokens of two texts belong together, as a person has corrected it."""

import re
from typing import TypeAlias

from attnviz.base.formatting import quoted
from attnviz.base.language import value_error
from attnviz.effects.token_alignment import Alignment

# Positions in the corrupted text, with those in the clean text that they belong to; None where that is none.
Corrections: TypeAlias = tuple[tuple[int, int | None], ...]
WRITTEN = re.compile(r"([0-9]{1,4})-([0-9]{0,4})")
MOST = 200  # corrections


def parse_corrections(text: str) -> Corrections:
    """Returns corrections as a link has them: 4-3 where token 4 of the corrupted text belongs to token 3 of the clean
    one, and 5- where token 5 belongs to none. Raises ValueError for another text.

    Example:
        >>> parse_corrections("4-3 5-")
        ((4, 3), (5, None))
    """
    matches = [WRITTEN.fullmatch(part) for part in text.split()]
    if None in matches or len(matches) > MOST:
        raise value_error("Corrections of tokens are written as 4-3 5-; this is {text}.", text=quoted(text))
    return tuple((int(match[1]), int(match[2]) if match[2] else None) for match in matches if match)


def format_corrections(corrections: Corrections) -> str:
    """Returns corrections as a link has them."""
    return " ".join(f"{target}-{'' if source is None else source}" for target, source in corrections)


def add_correction(corrections: Corrections, target: int, source: int | None) -> Corrections:
    """Returns corrections with that of a token of the corrupted text, in place of others of the same tokens."""
    kept = (each for each in corrections if each[0] != target and (source is None or each[1] != source))
    return (*kept, (target, source))


def corrected(aligned: Alignment, corrections: Corrections, lengths: tuple[int, int]) -> Alignment:
    """Returns pairs of positions (clean, corrupted) with corrections, without those beyond the lengths of both texts.

    Example:
        >>> corrected(((0, 0), (1, 1)), ((1, None), (2, 1)), (2, 3))
        ((0, 0), (1, 2))
    """
    pairs: dict[int, int | None] = {target: source for source, target in aligned}
    for target, source in corrections:
        if target < lengths[1] and (source is None or source < lengths[0]):
            _unpair(pairs, source)
            pairs[target] = source
    return tuple((source, target) for target, source in sorted(pairs.items()) if source is not None)


def _unpair(pairs: dict[int, int | None], source: int | None) -> None:
    """Lets tokens that belong to this one belong to none."""
    for target in [target for target, own in pairs.items() if own == source]:
        pairs[target] = None
