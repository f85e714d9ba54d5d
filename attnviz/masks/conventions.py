"""The same named mask as different libraries define it, and the cells on which they differ: conventions.toml."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt
from pathlib import Path
from typing import Literal

import torch
from jaxtyping import Bool
from torch import Tensor

from attnviz.base.language import value_error
from attnviz.masks.mask import Mask, Symbol
from attnviz.masks.parser import parse
from attnviz.masks.terms import Variable

TABLE = Path(__file__).with_suffix(".toml")


@dataclass(frozen=True)
class Convention:
    """How one library defines a named mask; `mask` is a text with a place for the size."""

    library: str
    call: str  # what an engineer writes
    mask: str
    source: str  # where the library says so
    note: str = ""
    align: Literal["first", "last", "equal"] = "first"
    accepts: str = ""  # a condition in the language of masks; empty where the library refuses nothing
    refusal: str = ""  # what it says otherwise

    def call_with(self, size: int) -> str:
        """Returns the call with this size."""
        return self.call.format(size=size)

    def mask_with(self, size: int, queries: int, keys: int) -> Mask:
        """Returns the mask for a size and these numbers of queries and keys. Raises ValueError where the library
        refuses."""
        if self.align == "equal" and queries != keys:
            raise value_error(
                "This needs as many queries as keys; here there are {queries} and {keys}.",
                queries=queries,
                keys=keys,
            )
        height, width = squarest_grid(keys)
        numbers = {"size": size, "positions": keys, "height": height, "width": width}
        if self.accepts and not parse(self.accepts.format(**numbers)).matrix(queries, keys).all():
            raise value_error(self.refusal, **numbers)
        mask = parse(self.mask.format(**numbers))
        if self.align != "last" or queries == keys:
            return mask
        b, h, q, k, n_q, n_k = (Symbol(Variable(name)) for name in ("b", "h", "q", "k", "n_q", "n_k"))
        return mask(b, h, q + n_k - n_q, k).mask


@dataclass(frozen=True)
class NamedMask:
    """A named mask and its conventions."""

    name: str
    question: str  # what the conventions answer differently
    conventions: tuple[Convention, ...]
    size: str = ""  # what the number is; empty where there is none
    least: int = 1
    start: int = 4  # a size that shows the difference


@dataclass(frozen=True, eq=False)
class Reading:
    """The mask of one convention, or the reason why it refuses."""

    convention: Convention
    mask: Mask | None  # None where it refuses
    allowed: Bool[Tensor, "queries keys"] | None
    refusal: str = ""


def readings(named_mask: NamedMask, size: int, queries: int, keys: int) -> tuple[Reading, ...]:
    """Returns the mask of each convention of a named mask, for a size and these numbers of queries and keys.

    Raises ValueError if the size is too small, or there are no queries or keys.
    """
    if named_mask.size and size < named_mask.least:
        raise value_error(
            "{name} needs a size of {least} or more; it got {size}.",
            name=named_mask.name,
            least=named_mask.least,
            size=size,
        )
    if min(queries, keys) < 1:
        raise value_error(
            "Give at least one query and one key; there are {queries} and {keys}.", queries=queries, keys=keys
        )
    return tuple(_read_convention(convention, size, queries, keys) for convention in named_mask.conventions)


def _read_convention(convention: Convention, size: int, queries: int, keys: int) -> Reading:
    try:
        mask = convention.mask_with(size, queries, keys)
    except ValueError as refusal:
        return Reading(convention, None, None, str(refusal))
    return Reading(convention, mask, mask.matrix(queries, keys))


def disputed_cells(readings: Sequence[Reading]) -> Bool[Tensor, "queries keys"]:
    """Returns the cells on which the conventions differ, without those that refuse.

    Raises ValueError, with the message of the first one, if all of them refuse.
    """
    allowed = [reading.allowed for reading in readings if reading.allowed is not None]
    if not allowed:
        raise ValueError(readings[0].refusal)
    stacked = torch.stack(allowed)
    return stacked.any(0) & ~stacked.all(0)


def group_readings(readings: Sequence[Reading]) -> list[list[Reading]]:
    """Groups readings that allow the same cells, in the order of the first of each, without those that refuse."""
    groups: dict[bytes, list[Reading]] = {}
    for reading in readings:
        if reading.allowed is not None:
            groups.setdefault(reading.allowed.numpy().tobytes(), []).append(reading)
    return list(groups.values())


def squarest_grid(positions: int) -> tuple[int, int]:
    """Returns the height and width of the grid of these positions nearest to a square, never taller than wide."""
    height = max(rows for rows in range(1, isqrt(positions) + 1) if positions % rows == 0)
    return height, positions // height


def _read_masks() -> tuple[NamedMask, ...]:
    tables = tomllib.loads(TABLE.read_text(encoding="utf-8"))["masks"]
    return tuple(
        NamedMask(**{**table, "conventions": tuple(Convention(**one) for one in table["conventions"])})
        for table in tables
    )


NAMED_MASKS = _read_masks()  # in the order of the menu
CAUSAL, SLIDING, BIDIRECTIONAL, PREFIX, DILATED, CHUNKED, PACKED, NEIGHBORHOOD, POLARITY = NAMED_MASKS
