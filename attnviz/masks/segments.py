"""Masks of segments: what belongs together in a sequence that holds several things."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np

from attnviz.base.language import N_, _, value_error
from attnviz.masks.direction import Causal
from attnviz.masks.mask import Array, Mask
from attnviz.masks.terms import take

ENDLESS = 2**31 - 1  # the end of an open segment, beyond all positions


@dataclass(frozen=True)
class Padding(Mask):
    """Only the first keys are real, the others are padding that nobody sees; queries are untouched.

    `keys` is how many are real, or True and False for each key, as a tokenizer's attention mask gives them.

    Example:
        >>> Padding(2).matrix(2, 3).long()
        tensor([[1, 1, 0],
                [1, 1, 0]])
    """

    keys: int | tuple[bool, ...] = field(default=8, metadata={"min": 0, "max": 131072, "label": "Real keys"})

    def __call__(self, b: Array, h: Array, q: Array, k: Array) -> Array:
        return k < self.keys if isinstance(self.keys, int) else take(list(map(int, self.keys)), k) == 1

    def bind(self, queries: int, keys: int, heads: int) -> Mask:
        if not isinstance(self.keys, int) and len(self.keys) != keys:
            raise value_error(
                "Padding is given for {count} keys; here there are {keys}.", count=len(self.keys), keys=keys
            )
        return self

    def condition(self) -> str:
        if isinstance(self.keys, int):
            return _("the key is one of the first {keys}", keys=self.keys)
        return _("the key is one of the {keys} that are real", keys=sum(self.keys))


@dataclass(frozen=True)
class Documents(Mask):
    """Several documents packed into one sequence, each seeing only itself.

    Both positions are in the same document, and a mask of its own holds inside it, with positions counted from
    its start. What lies beyond the given lengths is one more document (attention-gym's document mask; packed
    sequences in transformers, where what is inside is causal).

    Example:
        >>> Documents((2, 2)).matrix(4, 4).long()
        tensor([[1, 0, 0, 0],
                [1, 1, 0, 0],
                [0, 0, 1, 0],
                [0, 0, 1, 1]])
    """

    CONDITION = N_(
        "both are in the same document (of {lengths} positions, then one more) and, counted from the document's "
        "start, {inner}"
    )

    lengths: tuple[int, ...] = field(default=(4, 3, 5), metadata={"min": 1, "max": 131072, "many": 64})
    inner: Mask = field(default=Causal())

    def __post_init__(self) -> None:
        super().__post_init__()
        if _depends_on_lengths(self.inner):
            raise value_error(
                "Documents needs an inner mask that does not depend on the numbers of queries and "
                "keys, because documents differ in length; it got {inner}. Use one such as causal "
                "or sliding_window(4).",
                inner=self.inner,
            )

    def __call__(self, b: Array, h: Array, q: Array, k: Array) -> Array:
        starts: list[int] = list(accumulate(self.lengths, initial=0))
        start = segment_value(starts, self.lengths, q)
        end = segment_value([*starts[1:], ENDLESS], self.lengths, q)
        return (start <= k) & (k < end) & self.inner(b, h, q - start, k - start)

    def table_size(self) -> int:
        return 2 * sum(self.lengths)


@dataclass(frozen=True)
class SharedPrefix(Mask):
    """Several answers to one prompt in one sequence, which holds the prompt once.

    Each document sees what came before in itself, and all of the document that is its prefix. `prefixes` names,
    for each document, the number of its prefix, counted from 0; one that is a prefix names itself. What lies
    beyond the given lengths is one more document without a prefix (attention-gym's shared prefix mask).

    Example:
        >>> SharedPrefix((2, 1, 1), (0, 0, 0)).matrix(4, 4).long()
        tensor([[1, 0, 0, 0],
                [1, 1, 0, 0],
                [1, 1, 1, 0],
                [1, 1, 0, 1]])
    """

    CONDITION = N_(
        "both are in the same document (of {lengths} positions, then one more) and the key is not after it, or the "
        "key is in the document that is the prefix of its own (prefixes {prefixes})"
    )

    lengths: tuple[int, ...] = field(default=(3, 2, 2, 3, 2, 2), metadata={"min": 1, "max": 131072, "many": 64})
    prefixes: tuple[int, ...] = field(
        default=(0, 0, 0, 3, 3, 3), metadata={"min": 0, "max": 63, "many": 64, "label": "Prefix of each"}
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.prefixes) != len(self.lengths):
            raise value_error(
                "SharedPrefix needs a prefix for each of its {count} documents; it got {prefixes}.",
                count=len(self.lengths),
                prefixes=len(self.prefixes),
            )
        for document, prefix in enumerate(self.prefixes):
            if not 0 <= prefix <= document or self.prefixes[prefix] != prefix:
                raise value_error(
                    "SharedPrefix needs the prefix of document {document} to be itself, or an "
                    "earlier document that is its own prefix; it got {prefix}.",
                    document=document,
                    prefix=prefix,
                )

    def __call__(self, b: Array, h: Array, q: Array, k: Array) -> Array:
        starts = list(accumulate(self.lengths, initial=0))
        shared = [
            (0, 0) if prefix == document else (starts[prefix], starts[prefix + 1])
            for document, prefix in enumerate((*self.prefixes, len(self.prefixes)))
        ]
        start = segment_value(starts, self.lengths, q)
        first, end = (segment_value(ends, self.lengths, q) for ends in zip(*shared, strict=True))
        return ((start <= k) & (k <= q)) | ((first <= k) & (k < end))

    def table_size(self) -> int:
        return 3 * sum(self.lengths)


@dataclass(frozen=True)
class Chunked(Mask):
    """The sequence is cut into chunks, and each query sees what came before in its own.

    k ≤ q and ⌊q / size⌋ = ⌊k / size⌋, as in Llama 4 and in transformers' chunked attention.

    Example:
        >>> Chunked(2).matrix(4, 4).long()
        tensor([[1, 0, 0, 0],
                [1, 1, 0, 0],
                [0, 0, 1, 0],
                [0, 0, 1, 1]])
    """

    CONDITION = N_("the key is not after it and in the same chunk of {size}")

    size: int = field(default=4, metadata={"min": 1, "max": 131072})

    def __call__(self, b: Array, h: Array, q: Array, k: Array) -> Array:
        return (k <= q) & (q // self.size == k // self.size)


@dataclass(frozen=True)
class BlockCausal(Mask):
    """Causal in blocks: each query sees all of its own block, and the blocks before it.

    `left` says how many blocks before are seen; −1 stands for all of them. Streaming speech recognition uses it
    (`subsequent_chunk_mask` in WeNet), and so does block diffusion among its clean tokens (Arriola et al. 2025).

    Example:
        >>> BlockCausal(2).matrix(4, 4).long()
        tensor([[1, 1, 0, 0],
                [1, 1, 0, 0],
                [1, 1, 1, 1],
                [1, 1, 1, 1]])
    """

    size: int = field(default=3, metadata={"min": 1, "max": 131072})
    left: int = field(default=-1, metadata={"min": -1, "max": 131072, "label": "Blocks before"})

    def __call__(self, b: Array, h: Array, q: Array, k: Array) -> Array:
        before = k // self.size <= q // self.size
        return before if self.left < 0 else before & (q // self.size - k // self.size <= self.left)

    def condition(self) -> str:
        blocks = _("a block before it") if self.left < 0 else _("one of the {left} blocks before it", left=self.left)
        return _("the key is in the same block of {size} or in {blocks}", size=self.size, blocks=blocks)


def segment_value(values: Sequence[int], lengths: Sequence[int], position: Array) -> Array:
    """Returns the value of the segment at each position; the last value is that of all positions after the segments."""
    numbers = array("q", np.repeat(np.array(values, "i8"), (*lengths, 1)).tobytes())
    return take(numbers, position.clamp(min=0, max=len(numbers) - 1))


def _depends_on_lengths(mask: Mask) -> bool:
    try:
        return any(mask.bind(length, length + 1, 1) != mask for length in (1, 2))
    except ValueError:  # the mask fits certain lengths only
        return True


MASKS = (Padding, Documents, SharedPrefix, Chunked, BlockCausal)
