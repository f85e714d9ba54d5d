"""Who may look at whom."""

from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from jaxtyping import Bool, Int
from torch import Tensor


class Mask:
    """A predicate on positions, True where query q may attend to key k: FlexAttention's `mask_mod`.

    b, h, q and k are the positions of batch, head, query and key, as whole-number tensors that
    broadcast against each other. Masks combine with &, | and ~.
    """

    def __call__(
        self,
        b: Int[Tensor, "*#cells"],
        h: Int[Tensor, "*#cells"],
        q: Int[Tensor, "*#cells"],
        k: Int[Tensor, "*#cells"],
    ) -> Bool[Tensor, "..."]:
        raise NotImplementedError

    def fit(self, queries: int, keys: int) -> "Mask":
        """This mask for so many queries and keys: itself, unless its rule depends on how many there are."""
        return self

    def __and__(self, other: "Mask") -> "Mask":
        return And(self, other)

    def __or__(self, other: "Mask") -> "Mask":
        return Or(self, other)

    def __invert__(self) -> "Mask":
        return Not(self)


@dataclass(frozen=True)
class Full(Mask):
    """Every query sees every key, as in an encoder."""

    def __call__(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return (q >= 0) & (k >= 0)


@dataclass(frozen=True)
class Causal(Mask):
    """Each query sees its own position and what came before, as in a decoder: k ≤ q.

    With fewer queries than keys there are two conventions. "top left" counts both from the first
    (torch's `is_causal`); "bottom right" lets the last query see the last key, k ≤ q + keys − queries
    (FlashAttention, torch's `causal_lower_right`).
    """

    align: Literal["top left", "bottom right"] = field(default="top left", metadata={"label": "Alignment"})

    def __post_init__(self) -> None:
        _one_of(self, "align", self.align, ("top left", "bottom right"))

    def fit(self, queries: int, keys: int) -> Mask:
        return self if self.align == "top left" else Shifted(Causal(), keys - queries)

    def __call__(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        if self.align == "bottom right":
            raise ValueError("Causal aligned bottom right depends on the lengths: call fit(queries, keys) first.")
        return k <= q


@dataclass(frozen=True)
class Padding(Mask):
    """Only the first keys are real, the others are padding that nobody sees; queries are untouched.

    `keys` is how many are real, or True and False for each key, as a tokenizer's attention mask gives them.
    """

    keys: int | tuple[bool, ...] = field(default=8, metadata={"min": 0, "max": 4096, "label": "Real keys"})

    def __post_init__(self) -> None:
        if isinstance(self.keys, int):
            _at_least(self, "keys", self.keys, 0)

    def __call__(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        real = k < self.keys if isinstance(self.keys, int) else torch.tensor(self.keys, device=k.device)[k]
        return real & (q >= 0)

    def fit(self, queries: int, keys: int) -> Mask:
        if not isinstance(self.keys, int) and len(self.keys) != keys:
            raise ValueError(f"Padding is given for {len(self.keys)} keys; here there are {keys}.")
        return self


@dataclass(frozen=True)
class SlidingWindow(Mask):
    """Each query sees itself and a few keys just before it.

    Two conventions of `size` are in use. "keys seen" counts the query's own key: k > q − size
    (Hugging Face, Mistral). "steps back" does not: q − k ≤ size, so size + 1 keys (attention-gym,
    FlashAttention's `window_size=(size, 0)`).
    """

    size: int = field(default=4, metadata={"min": 0, "max": 4096})
    counts: Literal["keys seen", "steps back"] = field(default="keys seen", metadata={"label": "Size counts"})

    def __post_init__(self) -> None:
        _at_least(self, "size", self.size, 0)
        _one_of(self, "counts", self.counts, ("keys seen", "steps back"))

    def __call__(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        back = self.size - 1 if self.counts == "keys seen" else self.size
        return (k <= q) & (q - k <= back)


@dataclass(frozen=True)
class Band(Mask):
    """Each query sees the keys at most `width` positions away, on both sides: |q − k| ≤ width.

    The bidirectional window of ModernBERT and of Hugging Face's encoders.
    """

    width: int = field(default=2, metadata={"min": 0, "max": 4096})

    def __post_init__(self) -> None:
        _at_least(self, "width", self.width, 0)

    def __call__(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return (q - k).abs() <= self.width


MASKS = (Full, Causal, SlidingWindow, Band, Padding)


@dataclass(frozen=True, repr=False)
class And(Mask):
    """What both masks allow."""

    left: Mask
    right: Mask

    def __call__(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return self.left(b, h, q, k) & self.right(b, h, q, k)

    def fit(self, queries: int, keys: int) -> Mask:
        return replace(self, left=self.left.fit(queries, keys), right=self.right.fit(queries, keys))

    def __repr__(self) -> str:
        return f"({self.left!r} & {self.right!r})"


@dataclass(frozen=True, repr=False)
class Or(Mask):
    """What at least one of two masks allows."""

    left: Mask
    right: Mask

    def __call__(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return self.left(b, h, q, k) | self.right(b, h, q, k)

    def fit(self, queries: int, keys: int) -> Mask:
        return replace(self, left=self.left.fit(queries, keys), right=self.right.fit(queries, keys))

    def __repr__(self) -> str:
        return f"({self.left!r} | {self.right!r})"


@dataclass(frozen=True, repr=False)
class Not(Mask):
    """What a mask does not allow."""

    mask: Mask

    def __call__(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return ~self.mask(b, h, q, k)

    def fit(self, queries: int, keys: int) -> Mask:
        return Not(self.mask.fit(queries, keys))

    def __repr__(self) -> str:
        return f"~{self.mask!r}"


@dataclass(frozen=True)
class Shifted(Mask):
    """A mask whose queries stand `by` positions further on, as when earlier keys are cached."""

    mask: Mask
    by: int

    def __call__(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return self.mask(b, h, q + self.by, k)

    def fit(self, queries: int, keys: int) -> Mask:
        return replace(self, mask=self.mask.fit(queries, keys))


def _at_least(mask: Mask, name: str, value: int, least: int) -> None:
    if value < least:
        raise ValueError(f"{type(mask).__name__} needs {name} ≥ {least}; it got {value}.")


def _one_of(mask: Mask, name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{type(mask).__name__} needs {name} to be one of {', '.join(choices)}; it got {value!r}.")
