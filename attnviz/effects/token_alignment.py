"""Which tokens of two texts belong together."""

from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, TypeAlias

from attnviz.tracing.forward_arguments import ForwardArguments

# Pairs of a position in the clean text and that in the corrupted text.
Alignment: TypeAlias = tuple[tuple[int, int], ...]


def alignment(clean: Sequence[int] | Mapping[str, Any], corrupted: Sequence[int] | Mapping[str, Any]) -> Alignment:
    """Returns pairs of positions (clean, corrupted) of two texts, in which each position is at most once. Texts are
    given by the ids of their tokens, or as batches of one example, in which padding belongs to nothing.

    Texts of the same number of tokens are aligned position by position. In others, runs of tokens that both have are
    aligned, and a run that is replaced by another of the same length; what is left belongs to nothing (Ratcliff &
    Metzener 1988, "Pattern Matching: The Gestalt Approach", in Python's difflib).

    Example:
        >>> alignment([1, 2, 3, 4], [1, 5, 6, 3, 4])
        ((0, 0), (2, 3), (3, 4))
    """
    clean_ids, corrupted_ids = map(_read_ids, (clean, corrupted))
    if len(clean_ids) == len(corrupted_ids):
        return tuple(zip(clean_ids, corrupted_ids, strict=True))
    runs = SequenceMatcher(None, [*clean_ids.values()], [*corrupted_ids.values()], autojunk=False).get_opcodes()
    places, other_places = [*clean_ids], [*corrupted_ids]
    return tuple(
        pair
        for _kind, start, end, other_start, other_end in runs
        if end - start == other_end - other_start
        for pair in zip(places[start:end], other_places[other_start:other_end], strict=True)
    )


def _read_ids(text: Sequence[int] | Mapping[str, Any]) -> dict[int, int]:
    """Returns the token ids of a text by the positions that are read."""
    if not isinstance(text, Mapping):
        return dict(enumerate(text))
    ids = text["input_ids"][0].tolist()
    read = ForwardArguments((), {}, dict(text), False).read(len(ids))
    return {position: id for position, id in enumerate(ids) if read[position]}
