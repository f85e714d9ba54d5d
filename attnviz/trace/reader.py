"""The reader of a trace in a folder, which is not trusted."""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

from torch import Tensor

from attnviz.base.formatting import dimensions, enumeration, quoted, short_repr
from attnviz.layer import Fidelity, FixedWeights, Kind, Layer, LayerId
from attnviz.masks import Full
from attnviz.mechanism import Mechanism
from attnviz.trace.layer_file import map_tensors
from attnviz.trace.manifest import (
    NAME,
    TokenAxis,
    parse_axis,
    parse_choice,
    parse_id,
    parse_list,
    parse_optional_choice,
    parse_text,
    read_manifest,
    valid_text,
)
from attnviz.trace.mapped_inputs import MappedInputs, MappedWeights
from attnviz.trace.mechanism_parts import parse_mechanism
from attnviz.trace.problems import MOST_PROBLEMS, Problem, TracePlace
from attnviz.trace.schema import LAYER, MOST_AXES, MOST_LAYERS, MOST_MISSING, TRACE

FILE = re.compile(r"layer-[0-9]{4,6}\.safetensors")
VECTORS = ("query", "key", "value")
TokenAxes = list[TokenAxis | None]  # None: it is a problem
NOT_WHOLE = "This trace is not whole: its capture ended before it was finished, and these are the layers until then."


@dataclass(frozen=True, eq=False)
class TraceContents:
    """What was read from a folder: the layers without problems, and the problems of all."""

    problems: list[Problem]
    layers: tuple[Layer, ...] = ()
    missing: tuple[str, ...] = ()
    model: str = ""

    @property
    def refusals(self) -> list[Problem]:
        return [problem for problem in self.problems if not problem.is_warning]


def read_trace(folder: Path, most_problems: int = MOST_PROBLEMS) -> TraceContents:
    """Returns what is in a folder. Nothing is raised; no layer is read after this number of problems."""
    root = TracePlace()
    opened = root.attempt(resolved_folder, folder)
    content = None if opened is None else root.inside("", NAME).attempt(read_manifest, opened)
    if opened is None or content is None:
        return TraceContents(root.problems)
    place = root.inside("", NAME)
    values = place.fields(content, TRACE)
    model = place.read(values, "model", parse_text) or ""
    missing = [valid_text(text) for text in place.read(values, "missing", parse_list, str, MOST_MISSING) or ()]
    if values["whole"] is not True:
        place.inside("whole").warn(NOT_WHOLE)
        missing = [NOT_WHOLE, *missing]
    listed = place.read(values, "axes", parse_list, dict, MOST_AXES)
    axes = listed and [parse_axis(axis, place.inside(f"axes[{number}]")) for number, axis in enumerate(listed)]
    layers = {}
    for number, described in enumerate(place.read(values, "layers", parse_list, dict, MOST_LAYERS) or ()):
        if len(place.refusals) >= most_problems:
            break
        layer = _read_layer(opened, described, number, axes, place.inside(f"layers[{number}]"))
        if layer is not None:
            layers[number] = layer
    return TraceContents(place.problems, tuple(_with_unique_ids(layers, place)), tuple(missing), model)


def resolved_folder(folder: Path) -> Path:
    """Returns the whole path of a folder. Raises ValueError if it cannot be opened."""
    try:
        folder = folder.expanduser().resolve(strict=True)
        is_folder = folder.is_dir()
    except (OSError, RuntimeError, ValueError) as error:
        raise ValueError(f"There is no folder {quoted(folder)} that can be opened. Give that of a trace.") from error
    if not is_folder:
        raise ValueError(f"{quoted(folder.name)} is a file. Give the folder that holds it, with its {NAME}.")
    return folder


def open_layer(folder: Path, described: dict[str, Any], axes: TokenAxes) -> Layer:
    """Returns a layer whose vectors are mapped from its file. Raises ValueError if the file is not as described."""
    place = TracePlace(NAME)
    layer = _read_layer(folder, described, 0, axes, place)
    if layer is None:
        raise ValueError(str(place.refusals[0]))
    return layer


def _read_layer(
    folder: Path, described: object, number: int, axes: TokenAxes | None, place: TracePlace
) -> Layer | None:
    """Returns a layer, or None if a part of it, or an axis, is a problem."""
    before, values = len(place.refusals), place.fields(described, LAYER)
    file = place.read(values, "file", _parse_file)
    tensors = None if file is None else place.inside("file").attempt(map_tensors, folder / file, values["tensors"])
    layer_id = parse_id(values.get("id"), number, place.inside("id"))
    kind = place.read(values, "kind", parse_choice, Kind)
    fidelity = place.read(values, "fidelity", parse_optional_choice, Fidelity)
    texts = [place.read(values, name, parse_text) for name in ("locked_reason", "comparison", "leak")]
    queries, keys = values.get("queries"), values.get("keys")
    sides = [
        place.inside(name).attempt(_side, number, name, axes, tensors or {})
        for name, number in (("queries", queries), ("keys", queries if keys is None else keys))
    ]
    inputs = None
    if file is not None and tensors is not None and None not in sides:
        inputs = place.attempt(_inputs, file, tensors, sides)
    mechanism: Mechanism | FixedWeights | None = FixedWeights()
    if isinstance(inputs, MappedInputs) and tensors is not None:
        sizes = inputs.queries, inputs.keys, inputs.heads
        mechanism = parse_mechanism(values["mechanism"], tensors, sizes, place.inside("mechanism"))
        if kind is Kind.CAUSAL and mechanism is not None and mechanism.mask == Full():
            place.inside("mechanism.mask").warn(
                "The layer is causal, but this mask lets each query attend to all keys. Write “causal”."
            )
    if len(place.refusals) > before or inputs is None:
        return None
    return Layer(layer_id, kind, inputs, mechanism, fidelity, *texts)  # type: ignore[arg-type]  # no part is a problem


def _parse_file(file: object) -> str:
    if not isinstance(file, str) or not FILE.fullmatch(file):
        raise ValueError(
            f"{quoted(file)} is not a layer's file in this folder. Give a name such as layer-0000.safetensors."
        )
    return file


def _side(number: object, name: str, axes: TokenAxes | None, tensors: dict[str, Tensor]) -> TokenAxis | None:
    """Returns the axis of the queries or keys, None if it is a problem itself. Raises ValueError if there is no such
    axis, or if the vectors or weights are for another number of tokens."""
    if axes is None:
        return None
    if type(number) is not int or not 0 <= number < len(axes):
        raise ValueError(f"It must be the number of one of {len(axes):,} axes, from 0; it is {short_repr(number)}.")
    axis = axes[number]
    if "weights" in tensors:
        tensor, position, names = "weights", 1 if name == "queries" else 2, "(heads, queries, keys)"
    else:
        tensor, position, names = "query" if name == "queries" else "key", 1, "(heads, tokens, width)"
    shape = tensors[tensor].shape if tensor in tensors else ()
    if axis is not None and len(shape) == 3 and shape[position] != (count := len(axis[0])):
        hint = " The first two seem to be swapped: transpose them." if shape[0] == count else ""
        raise ValueError(
            f"axes[{number}] names {count:,} tokens, but {tensor} is for {shape[position]:,}: its axes {names} are "
            f"{dimensions(shape)}.{hint}"
        )
    return axis


def _inputs(file: str, tensors: dict[str, Tensor], sides: list[TokenAxis]) -> MappedInputs | MappedWeights:
    """Takes the vectors or weights out of the tensors. Raises ValueError if they are missing, or do not fit."""
    names = ("weights",) if "weights" in tensors else VECTORS
    if not tensors.keys() >= {*names}:
        raise ValueError(
            f"{file} does not hold {enumeration(names)}, or weights instead. It has "
            f"{enumeration([*map(quoted, tensors)][:8]) if tensors else 'none'}."
        )
    arrays = [tensors.pop(name) for name in names]
    by_turns = [part for pair in zip(*sides, strict=True) for part in pair]  # both tokens, both special ones, …
    kind: Any = MappedInputs if names == VECTORS else MappedWeights
    return kind(*arrays, *by_turns, file=file)


def _with_unique_ids(layers: dict[int, Layer], place: TracePlace) -> list[Layer]:
    """Returns layers with unique ids: those that an unfinished capture has not told apart are numbered."""
    result: dict[LayerId, Layer] = {}
    occurrences: defaultdict[LayerId, Iterator[int]] = defaultdict(lambda: count(1))  # that may still be free
    for number, layer in layers.items():
        free = layer.id
        while free in result:
            free = replace(free, occurrence=next(occurrences[replace(free, occurrence=None)]))
        if free != layer.id:
            place.inside(f"layers[{number}].id").warn(
                f"{quoted(layer.name)} is the name of a layer before, so this one is named {quoted(free)}."
            )
        result[free] = replace(layer, id=free)
    return [*result.values()]
