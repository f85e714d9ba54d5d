"""Layers from uploaded vectors or weights."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from attnviz.base.formatting import grouped, quoted, significant
from attnviz.base.language import N_, _, value_error
from attnviz.base.settings import unpacked_bytes, upload_bytes
from attnviz.biases import Rotary, rotated
from attnviz.inputs import Inputs, cut_heads
from attnviz.layer import Fidelity, FixedWeights, Kind, Layer, LayerId, WeightsOnly
from attnviz.mechanism import Mechanism
from attnviz.sources.arrays import MOST_TOKENS, ROLES, check_array, numpy_array, role_of
from attnviz.sources.files import FileContents, read_file
from attnviz.sources.formats import READERS, parquet_bytes
from attnviz.sources.source import MissingInput, Source
from attnviz.sources.tables import parse_number

MOST_LAYERS = 64
MOST_HEADS = 64
MOST_NUMBERS = 4_096
LIMITS = (("layers", MOST_LAYERS), ("heads", MOST_HEADS), ("tokens", MOST_TOKENS), ("numbers a vector", MOST_NUMBERS))
LIMITS_OF_WEIGHTS = (*LIMITS[:3], ("keys", MOST_TOKENS))
TOLERANCE = 1e-3  # how far above 1 rounding to 16 bits or less may take a weight
SUM_TOLERANCE = 0.05  # how far from 1 the sum of a row of weights may be that were rounded

ArrayReading = Literal["by name", "vectors", "weights"]  # what one array is
READ_AS = N_("Read as")
ENDINGS = f"{', '.join(list(READERS)[:-1])} or {list(READERS)[-1]}"


@dataclass(frozen=True)
class File:
    """An uploaded file. Files are equal if their names and the digests of their contents are."""

    name: str
    data: bytes = field(repr=False, compare=False)
    sha256: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sha256", hashlib.sha256(self.data).hexdigest())


@dataclass(frozen=True)
class Upload(Source):
    """Your own vectors, as .npz, .npy, .safetensors, .csv, .tsv, .json or .parquet.

    Give `query`, `key` and `value`, or one matrix that attends to itself, or finished `weights`; with
    `tokens` (and `key_tokens`) to name the rows. An array has the axes (tokens, width),
    (heads, tokens, width) or (layers, heads, tokens, width). Where there is no `value`, the keys serve as
    values. The number of heads is how many a matrix without heads is cut into. Rotary positions turn each
    query and key by its row, in pairs of numbers from both halves of a head (half split) or side by side
    (interleaved), where that is not yet done. Numbers of one array are vectors or weights by its name, or as
    you choose; where it has no name and its rows add up to 1, you have to.
    """

    file: File | None = field(default=None, metadata={"label": "Vectors", "max_bytes": upload_bytes})
    heads: int = field(default=1, metadata={"min": 1, "max": MOST_HEADS, "label": "Number of heads"})
    rotary: Rotary = field(default="none", metadata={"label": "Rotary positions"})
    reading: ArrayReading = field(default="by name", metadata={"label": READ_AS})

    @property
    def work(self) -> int:
        return 2 * len(self.file.data) if self.file else 0

    @property
    def reader_bytes(self) -> int:
        """The most memory that a process takes to read the file, where this process does not read it, in bytes."""
        is_parquet = self.file is not None and self.file.name.lower().endswith(".parquet")
        return parquet_bytes(len(self.file.data), unpacked_bytes()) if is_parquet and self.file else 0

    def layers(self) -> list[Layer]:
        """Returns the layers in the file. Raises ValueError if there are none, MissingInput without a file."""
        if self.file is None:
            raise MissingInput(
                _(
                    "Upload vectors to see their attention, as {ENDINGS}; or try one of the samples. A link has no "
                    "files: after a reload, upload yours again.",
                    ENDINGS=ENDINGS,
                )
            )
        contents = read_file(self.file.name, self.file.data)
        has_names = contents.is_named or len(contents.arrays) > 1
        arrays = contents.arrays if has_names else contents.arrays["vectors"]
        tokens, reading = contents.tokens, self.reading
        if reading == "by name" and _is_table_of_weights(contents):
            reading = "weights"
        if reading == "weights" and contents.columns and contents.columns != tokens.get("tokens"):
            tokens = {"key_tokens": contents.columns, **tokens}
        return from_arrays(arrays, **tokens, heads=self.heads, rotary=self.rotary, reading=reading)


def from_arrays(
    arrays: np.ndarray | Tensor | Mapping[str, np.ndarray | Tensor],
    tokens: Sequence[str] | None = None,
    key_tokens: Sequence[str] | None = None,
    heads: int = 1,
    rotary: Rotary = "none",
    reading: ArrayReading = "by name",
) -> list[Layer]:
    """Returns layers from arrays: query, key and value, or one matrix of vectors, or weights alone.

    Names may be short (q, k, v), and capitals do not count; without a value, the keys serve as values. `reading` says
    what one array is, "vectors" or "weights"; by default its name does.
    Axes are (tokens, width), (heads, tokens, width) or (layers, heads, tokens, width); the last two of weights are
    (queries, keys). A matrix of 2 axes is cut into `heads` heads, except for weights. `tokens` names the queries, and
    also the keys if there are as many and no `key_tokens`; without names they are numbered. `rotary` rotates queries
    and keys by their position (RoPE); it does nothing to weights.

    Raises ValueError if arrays are missing, disagree, are too large, or hold a number that is not finite; and if the
    rows of an array add up to 1 whose name does not say what it is.

    Example:
        >>> [layer] = from_arrays({"vectors": np.eye(4, dtype="f4")}, tokens=["a", "b", "c", "d"], heads=2)
        >>> layer.inputs.query.shape
        torch.Size([2, 4, 2])
        >>> layer.mechanism(layer.inputs).weights.shape
        torch.Size([2, 4, 4])
    """
    if not 1 <= heads <= MOST_HEADS:
        raise value_error(
            "A matrix can be cut into 1 to {MOST_HEADS} heads; there cannot be {heads}.",
            MOST_HEADS=MOST_HEADS,
            heads=heads,
        )
    is_named = isinstance(arrays, Mapping)
    named: Mapping[str, np.ndarray | Tensor] = arrays if isinstance(arrays, Mapping) else {"vectors": arrays}
    by_role: dict[str, np.ndarray] = {}
    for name, array in named.items():
        role = role_of(name)
        if role in by_role:
            raise value_error("{role} is given twice. Keep one of the two.", role=quoted(role))
        by_role[role] = check_array(name, numpy_array(array) if isinstance(array, Tensor) else array)
    if len(by_role) == 1 and not by_role.keys() & {*ROLES.values()}:
        [(role, array)], [name] = by_role.items(), named
        if reading == "by name" and not (is_named and role in ("vectors", "weights")) and may_be_weights(array):
            raise value_error(
                "The rows of this array add up to 1, so it may hold vectors or finished weights. Choose one of the "
                "two under “{label}”, or name the array vectors or weights.",
                label=_(READ_AS),
            )
        if reading == "weights" or (reading == "by name" and role == "weights"):
            return _weights_only_layers(name, _split_layers("weights", array, 1, LIMITS_OF_WEIGHTS), tokens, key_tokens)
        query = key = value = _split_layers(name, array, heads)
    elif {"query", "key"} <= by_role.keys() <= {"query", "key", "value"}:
        query, key, value = (
            _split_layers(name, by_role.get(name, by_role["key"]), heads) for name in ("query", "key", "value")
        )
    else:
        names = ", ".join(quoted(name) for name in list(named)[:8])
        raise value_error(
            "These arrays were given: {names}. Give query and key, and value if you have it; or "
            "one matrix of vectors alone; or weights alone.",
            names=names,
        )
    for name, other in (("key", key), ("value", value)):
        if len(other) != len(query):
            raise value_error(
                "query has {count} layers, but {name} has {layers}. Give as many of each.",
                count=len(query),
                name=name,
                layers=len(other),
            )
    if value[0].shape[:2] != key[0].shape[:2]:
        raise value_error(
            "key and value must have the same heads and tokens. As (heads, tokens, width), key has "
            "the shape {key_shape} and value {value_shape}.",
            key_shape=tuple(key[0].shape),
            value_shape=tuple(value[0].shape),
        )
    queries, keys = query[0].shape[1], key[0].shape[1]
    itself = query is key or (queries == keys and key_tokens is None)
    texts = _token_names(tokens, key_tokens, queries, keys)
    if rotary != "none":
        query, key = ([rotated(one.float(), rotary) for one in vectors] for vectors in (query, key))
    return [
        Layer(
            LayerId(index=i),
            Kind.SELF if itself else Kind.CROSS,
            Inputs(q, k, v, *texts),
            Mechanism(),
        )
        for i, (q, k, v) in enumerate(zip(query, key, value, strict=True))
    ]


def may_be_weights(array: np.ndarray) -> bool:
    """Returns whether these numbers look like finished weights: every row adds up to 1, or to 0 where nothing was
    allowed, and none is negative."""
    sums = array.sum(-1, dtype="f4")
    adds_up = np.abs(sums - 1) <= SUM_TOLERANCE
    return array.shape[-1] > 1 and bool(array.min() >= 0 and adds_up.any() and (adds_up | (sums == 0)).all())


def _is_table_of_weights(contents: FileContents) -> bool:
    """Whether a table has the same names for rows and columns, not all of them numbers, and its rows add up to 1."""
    has_same_names = contents.columns == contents.tokens.get("tokens")
    are_numbers = all(parse_number(name) is not None for name in contents.columns)
    return has_same_names and not are_numbers and may_be_weights(contents.arrays["vectors"])


def _weights_only_layers(
    name: str, layers: list[Tensor], tokens: Sequence[str] | None, key_tokens: Sequence[str] | None
) -> list[Layer]:
    """Returns layers with these weights."""
    for weights in layers:
        lowest, highest = float(weights.min()), float(weights.max())
        if lowest < 0 or highest > 1 + TOLERANCE:
            raise value_error(
                "{name}: weights must lie between 0 and 1; these go from {lowest} to {highest}. Apply "
                "softmax to them first, or give them another name if they are vectors.",
                name=quoted(name),
                lowest=significant(lowest, 4),
                highest=significant(highest, 4),
            )
    queries, keys = layers[0].shape[1:]
    kind = Kind.SELF if queries == keys and key_tokens is None else Kind.CROSS
    names = _token_names(tokens, key_tokens, queries, keys)
    return [
        Layer(LayerId(index=i), kind, WeightsOnly(weights, *names), FixedWeights(), Fidelity.WEIGHTS_ONLY)
        for i, weights in enumerate(layers)
    ]


def _split_layers(name: str, array: np.ndarray, heads: int, limits: Sequence[tuple[str, int]] = LIMITS) -> list[Tensor]:
    """Returns an array of 2 to 4 axes as layers of (heads, tokens, width). Raises ValueError if it is too large."""
    for size, (axis, most) in zip(array.shape, limits[-array.ndim :], strict=True):
        if size > most:
            raise value_error(
                "{name} has {size} {axis}; at most {most} can be shown. Upload fewer.",
                name=quoted(name),
                size=grouped(size),
                axis=axis,
                most=grouped(most),
            )
    tensor = torch.from_numpy(array)
    if array.ndim == 2:
        return [cut_heads(tensor, heads)]
    return list(tensor) if array.ndim == 4 else [tensor]


def _token_names(
    tokens: Sequence[str] | None, key_tokens: Sequence[str] | None, queries: int, keys: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the names of query and key tokens, by default their numbers."""
    if key_tokens is None and queries == keys:
        key_tokens = tokens
    result = []
    for name, names, count in (("tokens", tokens, queries), ("key_tokens", key_tokens, keys)):
        if names is not None and len(names) != count:
            axis, other = ("queries", "key_tokens") if name == "tokens" else ("keys", "tokens")
            fits_other = len(names) == (keys if name == "tokens" else queries)
            mend = _("Call them {other}.", other=other) if fits_other else _("Give one for each.")
            raise value_error(
                "{name} names {names} tokens, but there are {tokens} {axis}. {mend}",
                name=name,
                names=grouped(len(names)),
                tokens=grouped(count),
                axis=axis,
                mend=mend,
            )
        result.append(tuple(names) if names is not None else tuple(str(i) for i in range(count)))
    return result[0], result[1]
