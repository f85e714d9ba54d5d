"""Masks of a window of near keys."""

from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import Literal

from attnviz.base.language import _, plural, value_error
from attnviz.masks.mask import Array, Mask


@dataclass(frozen=True)
class SlidingWindow(Mask):
    """Each query sees itself and a few keys just before it.

    Two conventions of `size` are in use. "keys seen" counts the query's own key: k > q − size
    (Hugging Face, Mistral). "steps back" does not: q − k ≤ size, so size + 1 keys (attention-gym,
    FlashAttention's `window_size=(size, 0)`).

    Example:
        >>> SlidingWindow(2).matrix(3, 3).long()
        tensor([[1, 0, 0],
                [1, 1, 0],
                [0, 1, 1]])
    """

    size: int = field(default=4, metadata={"min": 0, "max": 131072})
    counts: Literal["keys seen", "steps back"] = field(default="keys seen", metadata={"label": "Size counts"})

    def __call__(self, b: Array, h: Array, q: Array, k: Array) -> Array:
        back = self.size - 1 if self.counts == "keys seen" else self.size
        return (k <= q) & (q - k <= back)

    def condition(self) -> str:
        back = self.size - 1 if self.counts == "keys seen" else self.size
        return _("the key is not after it and fewer than {back} positions before it", back=back + 1)


@dataclass(frozen=True)
class Band(Mask):
    """Each query sees the keys at most `width` positions away, on both sides: |q − k| ≤ width.

    The bidirectional window of ModernBERT and of Hugging Face's encoders.

    Example:
        >>> Band(1).matrix(3, 3).long()
        tensor([[1, 1, 0],
                [1, 1, 1],
                [0, 1, 1]])
    """

    width: int = field(default=2, metadata={"min": 0, "max": 131072})

    def __call__(self, b: Array, h: Array, q: Array, k: Array) -> Array:
        return abs(q - k) <= self.width

    def condition(self) -> str:
        return _(
            "the key is at most {position_count} away from it, on either side",
            position_count=_position_count(self.width),
        )


@dataclass(frozen=True)
class DilatedWindow(Mask):
    """A window with gaps: each query sees every `dilation`-th key, up to `width` positions away on both sides.

    |q − k| ≤ width and |q − k| divisible by the dilation (Longformer, Beltagy et al. 2020; attention-gym's
    dilated sliding window). `width` counts positions, not the keys that are seen.

    Example:
        >>> DilatedWindow(2).matrix(3, 5).long()
        tensor([[1, 0, 1, 0, 0],
                [0, 1, 0, 1, 0],
                [1, 0, 1, 0, 1]])
    """

    width: int = field(default=4, metadata={"min": 0, "max": 131072})
    dilation: int = field(default=2, metadata={"min": 1, "max": 131072})

    def __call__(self, b: Array, h: Array, q: Array, k: Array) -> Array:
        return (abs(q - k) <= self.width) & (abs(q - k) % self.dilation == 0)

    def condition(self) -> str:
        return _(
            "the key is at most {position_count} away from it, on either side, and the distance is "
            "divisible by {dilation}",
            position_count=_position_count(self.width),
            dilation=self.dilation,
        )


@dataclass(frozen=True)
class Longformer(Mask):
    """A window on both sides, and a few global positions that see all and are seen by all.

    `window` counts both sides together, so it is even and a query sees window / 2 keys on each side of its own:
    |q − k| ≤ window / 2, or q is global, or k is global (Beltagy et al. 2020; `attention_window` in
    transformers' Longformer). attention-gym's global sliding window counts one side.

    Example:
        >>> Longformer(2).matrix(4, 4).long()
        tensor([[1, 1, 1, 1],
                [1, 1, 1, 0],
                [1, 1, 1, 1],
                [1, 0, 1, 1]])
    """

    window: int = field(default=4, metadata={"min": 0, "max": 8192})
    global_positions: tuple[int, ...] = field(
        default=(0,), metadata={"min": 0, "max": 131071, "many": 64, "label": "Global positions"}
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.window % 2:
            raise value_error(
                "Longformer needs an even window, half of it on each side; it got {window}. Use {even}.",
                window=self.window,
                even=self.window + 1,
            )

    def __call__(self, b: Array, h: Array, q: Array, k: Array) -> Array:
        everywhere = [(q == position) | (k == position) for position in self.global_positions]
        return reduce(or_, everywhere, abs(q - k) <= self.window // 2)

    def condition(self) -> str:
        near = _(
            "the key is at most {position_count} away from it, on either side",
            position_count=_position_count(self.window // 2),
        )
        if not self.global_positions:
            return near
        return _(
            "{near}, or one of the two is at a global position ({positions})",
            near=near,
            positions=", ".join(map(str, self.global_positions)),
        )


MASKS = (SlidingWindow, Band, DilatedWindow, Longformer)


def _position_count(count: int) -> str:
    return plural("{count} position", "{count} positions", count, count=count)
