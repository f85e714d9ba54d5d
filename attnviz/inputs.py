"""What attention is computed from: the queries, keys and values of one example, with their tokens."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import torch
from jaxtyping import Float, Real
from torch import Tensor

from attnviz.base.formatting import dimensions
from attnviz.base.language import value_error
from attnviz.base.plain_tensor import plain_tensor

# A dot product of two vectors with entries below this stays far from float32's limit, whatever scales it.
LARGEST = 1e12
# Types in which vectors can be held, but not computed with: a head is converted to float32 when it is computed.
COMPACT = (torch.uint8, torch.int8, torch.int16, torch.float16, torch.bfloat16)


Box: TypeAlias = tuple[float, float, float, float]  # left, top, right, bottom
WHOLE: Box = (0.0, 0.0, 1.0, 1.0)
MOST_IMAGES = 1 << 20  # as many as there may be tokens


@dataclass(frozen=True)
class PatchGrid:
    """The rows and columns of an image's patches on an axis of tokens, where each patch is one token.

    A patch may be several of those that the model cuts the image into, where it merges them. Raises ValueError if there
    is not one position for each patch, or if the box or a number is not valid.

    Example:
        >>> grid = PatchGrid(2, 2, positions=(1, 2, 3, 4))
        >>> grid.named(["[CLS]", "1", "2", "3", "4"])
        ('[CLS]', '0·0', '0·1', '1·0', '1·1')
        >>> grid.place(3)
        (0.5, 0.5, 1.0, 1.0)
    """

    rows: int
    columns: int
    positions: tuple[int, ...]  # of the patches, row by row
    box: Box = WHOLE  # where the grid lies, in widths and heights of the image as the model sees it
    image: int = 0  # the place of the image among those that the model is given
    tile: int | None = None  # the place among the tiles or frames of the image

    def __post_init__(self) -> None:
        distinct = len(set(self.positions)) == len(self.positions) and min(self.positions, default=-1) >= 0
        if min(self.rows, self.columns) < 1 or self.rows * self.columns != len(self.positions) or not distinct:
            raise value_error(
                "A grid of {rows} × {columns} patches needs {count} different positions, from 0; it has "
                "{got}. Give the position of each patch, row by row.",
                rows=self.rows,
                columns=self.columns,
                count=self.rows * self.columns,
                got=len({position for position in self.positions if position >= 0}),
            )
        left, top, right, bottom = self.box
        if not (-MOST_IMAGES < left < right < MOST_IMAGES and -MOST_IMAGES < top < bottom < MOST_IMAGES):
            raise value_error(
                "The box of a grid is its left, top, right and bottom, as fractions of the image; it is {box}. Give "
                "four finite numbers, left less than right and top less than bottom.",
                box=self.box,
            )
        if not (0 <= self.image < MOST_IMAGES and 0 <= (self.tile or 0) < MOST_IMAGES):
            raise value_error("Images and tiles are counted from 0 to {most}.", most=MOST_IMAGES - 1)

    def place(self, patch: int) -> Box:
        """Returns the left, top, right and bottom of a patch, counted row by row, as fractions of the image."""
        row, column = divmod(patch, self.columns)
        left, top = self.box[:2]
        width, height = self._patch_size
        return left + column * width, top + row * height, left + (column + 1) * width, top + (row + 1) * height

    @property
    def _patch_size(self) -> tuple[float, float]:
        left, top, right, bottom = self.box
        return (right - left) / self.columns, (bottom - top) / self.rows

    def named(self, tokens: Sequence[str], before: str = "") -> tuple[str, ...]:
        """Returns the tokens of the axis, those of patches by their row and column in the image, after a text; of a
        spectrogram, whose patches are in one row, by the column."""
        names = list(tokens)
        (width, height), (left, top) = self._patch_size, self.box[:2]
        first_row, first_column = round(top / height), round(left / width)
        for patch, position in enumerate(self.positions):
            row, column = divmod(patch, self.columns)
            names[position] = f"{before}{f'{first_row + row}·' if height < 1 else ''}{first_column + column}"
        return tuple(names)


class MapAxes:
    """The axes of the maps of one layer: its heads, and the tokens of its queries and keys.

    `Inputs` has the vectors from which the maps are computed, `WeightsOnly` the maps alone.
    """

    query_tokens: tuple[str, ...]  # what a person reads on the axes
    key_tokens: tuple[str, ...]
    special_queries: tuple[int, ...] = ()  # positions of tokens that a tokenizer added, such as [CLS]
    special_keys: tuple[int, ...] = ()
    query_ids: tuple[int, ...] = ()  # token ids, where a tokenizer gave them: equal tokens may have unlike texts
    key_ids: tuple[int, ...] = ()
    query_grids: tuple[PatchGrid, ...] = ()  # of the images, tiles or frames whose patches the queries are
    key_grids: tuple[PatchGrid, ...] = ()

    @property
    def tensors(self) -> dict[str, Tensor]:
        """The tensors by name, as they are held: none is read for its shape or type."""
        raise NotImplementedError

    @property
    def dtype(self) -> torch.dtype:
        """The type in which heads are computed."""
        return torch.float32

    @property
    def device(self) -> torch.device:
        return next(iter(self.tensors.values())).device

    @property
    def heads(self) -> int:
        return len(next(iter(self.tensors.values())))

    @property
    def queries(self) -> int:
        return len(self.query_tokens)

    @property
    def keys(self) -> int:
        return len(self.key_tokens)

    @property
    def grids(self) -> tuple[PatchGrid, ...]:
        """The grids of the images that the keys are patches of, or else the queries; none if neither are."""
        return self.key_grids or self.query_grids

    @property
    def vectors(self) -> "Inputs":
        """The queries, keys and values. Raises ValueError if there are only weights."""
        raise value_error(
            "Of these heads only the weights are known, not the queries, keys and values that this needs. Choose "
            "other heads."
        )

    def maps(self, heads: slice | list[int], rows: slice | list[int]) -> Float[Tensor, "heads rows keys"]:
        """Returns the weights of some heads and queries as float32, NaN where not allowed, if they are known without a
        mechanism. Raises ValueError if they are not."""
        raise value_error("These are queries and keys. Give the mechanism that computes weights from them.")

    def with_tokens(self, **tokens: Any) -> "MapAxes":
        """Returns the same with other tokens, or positions of special ones."""
        return replace(self, **tokens)  # type: ignore[type-var]  # what has tensors is a dataclass

    def _set_plain(self, name: str, tensor: Tensor) -> Tensor:
        """Sets and returns a tensor as torch computes with it."""
        plain = plain_tensor(tensor, name)
        if plain is not tensor:
            object.__setattr__(self, name, plain)
        return plain

    def _check_axes(self, queries: int, keys: int) -> None:
        """Raises ValueError if tokens, ids or patches do not fit these numbers of queries and keys."""
        for side, count in (("query", queries), ("key", keys)):
            tokens, ids, grids = (getattr(self, f"{side}_{part}") for part in ("tokens", "ids", "grids"))
            if len(tokens) != count:
                raise value_error(
                    "{name} must name {count} tokens; it names {names}.",
                    name=f"{side}_tokens",
                    count=count,
                    names=len(tokens),
                )
            if len(ids) not in (0, count):
                raise value_error(
                    "{name} must hold {count} ids or none; it holds {ids}.",
                    name=f"{side}_ids",
                    count=count,
                    ids=len(ids),
                )
            positions = [position for grid in grids for position in grid.positions]
            if max(positions, default=0) >= count:
                raise value_error(
                    "{name} has a patch at position {position}, but there are {count} tokens.",
                    name=f"{side}_grids",
                    position=max(positions),
                    count=count,
                )
            if len(set(positions)) < len(positions):
                raise value_error("{name} has two patches at one position.", name=f"{side}_grids")


@dataclass(frozen=True, eq=False)
class Inputs(MapAxes):
    """The queries, keys and values of one example, for all heads of one layer.

    Heads may share keys and values: query head h uses key head h // (heads / kv_heads) (grouped-query attention,
    Ainslie et al. 2023). Each may be held in a type of COMPACT, such as uint8 or float16: then heads are converted to
    `dtype` when they are computed. Raises ValueError if shapes disagree or a number is not finite.

    Example:
        >>> inputs = Inputs(torch.zeros(4, 3, 8), *torch.zeros(2, 2, 3, 8), tuple("abc"), tuple("abc"))
        >>> inputs.heads, inputs.queries, inputs.keys, inputs.kv_head(3)
        (4, 3, 3, 1)
    """

    query: Real[Tensor, "heads queries d_q"]
    key: Real[Tensor, "kv_heads keys d_k"]
    value: Real[Tensor, "kv_heads keys d_v"]
    query_tokens: tuple[str, ...]
    key_tokens: tuple[str, ...]
    special_queries: tuple[int, ...] = ()
    special_keys: tuple[int, ...] = ()
    query_ids: tuple[int, ...] = ()
    key_ids: tuple[int, ...] = ()
    query_grids: tuple[PatchGrid, ...] = ()
    key_grids: tuple[PatchGrid, ...] = ()

    def __post_init__(self) -> None:
        for name, array in self.tensors.items():
            if not isinstance(array, Tensor):
                raise value_error(
                    "{name} must be a torch tensor; it is a {kind}. Use torch.as_tensor.",
                    name=name,
                    kind=type(array).__name__,
                )
            array = self._set_plain(name, array)
            if array.ndim != 3:
                raise value_error(
                    "{name} must have 3 axes (heads, tokens, width); it has shape {shape}.",
                    name=name,
                    shape=tuple(array.shape),
                )
            if not (array.is_floating_point() or array.dtype in COMPACT):
                raise value_error(
                    "{name} must hold real numbers, such as float32; it holds {dtype}.", name=name, dtype=array.dtype
                )
            if 0 in array.shape:
                raise value_error(
                    "{name} is empty: its shape is {shape}. Give at least one of each.",
                    name=name,
                    shape=tuple(array.shape),
                )
            self._check_numbers(name, array)
        if len(self._dtypes) > 1:
            types = "{}, {} and {}".format(*(tensor.dtype for tensor in self.tensors.values()))
            raise value_error(
                "query, key and value must be of one type; they are {types}. Use .float() on each.", types=types
            )
        query, key, value = self.tensors.values()
        heads, queries = query.shape[:2]
        kv_heads, keys = key.shape[:2]
        if value.shape[:2] != (kv_heads, keys):
            raise value_error(
                "key and value must have the same heads and tokens; key has {kv_heads} heads of "
                "{keys} tokens, value has {value_heads} heads of {value_tokens} tokens.",
                kv_heads=kv_heads,
                keys=keys,
                value_heads=value.shape[0],
                value_tokens=value.shape[1],
            )
        if heads % kv_heads:
            raise value_error(
                "{heads} query heads cannot share {kv_heads} key heads evenly. Make the number of "
                "query heads a multiple of {kv_heads}.",
                heads=heads,
                kv_heads=kv_heads,
            )
        self._check_axes(queries, keys)

    def __repr__(self) -> str:
        query, key, value = (dimensions(tensor.shape) for tensor in self.tensors.values())
        return f"Inputs(query {query}, key {key}, value {value})"

    @property
    def tensors(self) -> dict[str, Tensor]:
        return {name: vars(self)[name] for name in ("query", "key", "value")}

    @property
    def vectors(self) -> "Inputs":
        return self

    def _check_numbers(self, name: str, array: Tensor) -> None:
        """Raises ValueError if a number is not finite or too large."""
        if not is_bounded(array):
            raise value_error(
                "{name} holds numbers that are not finite, or larger than {LARGEST:.0e}. Replace "
                "NaN and infinity, or scale the vectors down.",
                name=name,
                LARGEST=LARGEST,
            )

    @property
    def _dtypes(self) -> set[torch.dtype]:
        return {tensor.dtype for tensor in self.tensors.values()} - {*COMPACT}

    @property
    def dtype(self) -> torch.dtype:
        """The type in which heads are computed: float32 where all are held in types of COMPACT."""
        return next(iter(self._dtypes), torch.float32)

    def kv_head(self, head: int) -> int:
        """Returns the key and value head that query head `head` uses."""
        return head * self.tensors["key"].shape[0] // self.heads

    def query_of(self, head: int) -> Float[Tensor, "queries d_q"]:
        """Returns the queries of head `head`, in the type in which it is computed."""
        return self.query[head].to(self.dtype)

    def key_of(self, head: int) -> Float[Tensor, "keys d_k"]:
        """Returns the keys that query head `head` uses, in the type in which it is computed."""
        return self.key[self.kv_head(head)].to(self.dtype)

    def value_of(self, head: int) -> Float[Tensor, "keys d_v"]:
        """Returns the values that query head `head` uses, in the type in which it is computed."""
        return self.value[self.kv_head(head)].to(self.dtype)


def is_bounded(array: Real[Tensor, "..."]) -> bool:
    """Returns whether all numbers lie between −LARGEST and LARGEST, which NaN never does."""
    least, most = map(float, array.detach().aminmax())
    return -LARGEST <= least <= most <= LARGEST


def cut_heads(vectors: Real[Tensor, "tokens width"], heads: int) -> Real[Tensor, "heads tokens d_head"]:
    """Splits vectors into `heads` parts of equal width, as in multi-head attention (Vaswani et al. 2017). Raises
    ValueError if the width is not divisible by `heads`.

    Example:
        >>> cut_heads(torch.arange(8.0).reshape(2, 4), heads=2).tolist()
        [[[0.0, 1.0], [4.0, 5.0]], [[2.0, 3.0], [6.0, 7.0]]]
    """
    width = vectors.shape[-1]
    if heads < 1 or width % heads:
        divisors = ", ".join(str(n) for n in range(1, min(width, 64) + 1) if width % n == 0)
        raise value_error(
            "Vectors of width {width} cannot be cut into {heads} equal heads. Choose one of {divisors}.",
            width=width,
            heads=heads,
            divisors=divisors,
        )
    return vectors.unflatten(-1, (heads, width // heads)).transpose(0, 1).contiguous()
