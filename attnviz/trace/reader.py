"""The reader of a trace in a folder, which is not trusted."""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from attnviz.formatting import enumeration, quoted
from attnviz.layer import Fidelity, Kind, Layer, LayerId
from attnviz.mechanism import Mechanism
from attnviz.patch_grid import PatchGrid
from attnviz.text import shorten_token
from attnviz.trace.layer_file import map_tensors
from attnviz.trace.manifest import (
    MOST_LAYERS,
    MOST_TOKENS,
    NAME,
    list_of,
    parse_grid,
    parse_id,
    read_manifest,
    text_of,
    valid_text,
)
from attnviz.trace.mapped_inputs import MappedInputs, MappedWeights
from attnviz.trace.mechanism_parts import parse_mechanism
from attnviz.weights_only import FixedWeights

Member = TypeVar("Member", bound=StrEnum)
FILE = re.compile(r"layer-[0-9]{4,6}\.safetensors")
VECTORS = ("query", "key", "value")
MOST_MISSING = 4_096
NOT_WHOLE = "This trace is not whole: its capture ended before it was finished, and these are the layers until then."


def read_trace(folder: Path) -> tuple[tuple[Layer, ...], tuple[str, ...], str]:
    """Returns the layers in a folder, what is missing in a sentence each, and the model's name. Raises ValueError for
    a folder that holds no trace, or a damaged one."""
    try:
        folder = folder.expanduser().resolve(strict=True)
        is_folder = folder.is_dir()
    except (OSError, RuntimeError, ValueError) as error:
        raise ValueError(f"There is no folder {quoted(folder)} that can be opened.") from error
    if not is_folder:
        raise ValueError(f"{quoted(folder.name)} is a file. Give the folder that holds it, with its {NAME}.")
    content = read_manifest(folder)
    axes = [_axis(axis) for axis in list_of(content, "axes", dict, 2 * MOST_LAYERS)]
    layers = [open_layer(folder, one, axes) for one in list_of(content, "layers", dict, MOST_LAYERS)]
    missing = [valid_text(text) for text in list_of(content, "missing", str, MOST_MISSING)]
    if content.get("whole") is not True:
        missing = [NOT_WHOLE, *missing]
    return tuple(_with_unique_ids(layers)), tuple(missing), text_of(content, "model")


# Tokens, positions of special ones, ids, and the grid of an image's patches.
TokenAxis = tuple[tuple[str, ...], tuple[int, ...], tuple[int, ...], PatchGrid | None]


def open_layer(folder: Path, described: dict[str, Any], axes: list[TokenAxis]) -> Layer:
    """Returns a layer whose vectors are mapped from its file. Raises ValueError if the file is not as described."""
    file = described.get("file")
    if not isinstance(file, str) or not FILE.fullmatch(file):
        raise ValueError(f"{NAME} names {quoted(file)}, which is not a layer's file in this folder. Capture it again.")
    tensors = map_tensors(folder / file, described.get("tensors"))
    names = ("weights",) if "weights" in tensors else VECTORS
    if not tensors.keys() >= {*names}:
        raise ValueError(f"{file} does not hold {enumeration(names)}. Capture it again.")
    arrays = [tensors.pop(name) for name in names]
    sides = [described.get(name) for name in ("queries", "keys")]
    if not all(type(side) is int and 0 <= side < len(axes) for side in sides):
        raise ValueError(f"{NAME} does not name the tokens of {file}. Capture it again.")
    queries, keys = (axes[side] for side in sides if side is not None)
    by_turns = (one for pair in zip(queries, keys, strict=True) for one in pair)  # both tokens, both special ones, …
    try:
        kind: Any = MappedInputs if names == VECTORS else MappedWeights
        inputs = kind(*arrays, *by_turns, file=file)
        mechanism: Mechanism | FixedWeights = FixedWeights()
        if names == VECTORS:
            sizes = inputs.queries, inputs.keys, inputs.heads
            mechanism = parse_mechanism(described.get("mechanism"), tensors, sizes)
        return Layer(
            parse_id(described.get("id")),
            _choice(described, "kind", Kind),
            inputs,
            mechanism,
            None if described.get("fidelity") is None else _choice(described, "fidelity", Fidelity),
            text_of(described, "locked_reason"),
            text_of(described, "comparison"),
            text_of(described, "leak"),
        )
    except ValueError as error:
        raise ValueError(f"The layer of {file} cannot be shown. {error}") from error


def _choice(described: dict[str, Any], name: str, kind: type[Member]) -> Member:
    value = described.get(name)
    if not isinstance(value, str) or value not in [*kind]:
        raise ValueError(f"Its {name} must be {enumeration([*kind], 'or')}; it is {quoted(value)}.")
    return kind(value)


def _axis(described: dict[str, Any]) -> TokenAxis:
    tokens = tuple(shorten_token(valid_text(token)) for token in list_of(described, "tokens", str, MOST_TOKENS))
    special, ids = (list_of(described, name, int, MOST_TOKENS) for name in ("special", "ids"))
    if not all(0 <= position < len(tokens) for position in special):
        raise ValueError(f"{NAME} names special tokens that are not there. Capture it again.")
    return tokens, tuple(special), tuple(ids), parse_grid(described.get("grid"))


def _with_unique_ids(layers: list[Layer]) -> list[Layer]:
    """Returns layers with unique ids: those that an unfinished capture has not told apart are numbered."""
    result: dict[LayerId, Layer] = {}
    occurrences: defaultdict[LayerId, Iterator[int]] = defaultdict(lambda: count(1))  # that may still be free
    for layer in layers:
        free = layer.id
        while free in result:
            free = replace(free, occurrence=next(occurrences[replace(free, occurrence=None)]))
        result[free] = replace(layer, id=free)
    return [*result.values()]
