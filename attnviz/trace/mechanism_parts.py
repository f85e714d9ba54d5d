"""Mechanisms as text and tensors, and back: a closed list of classes, so that a file can name nothing else."""

import math
from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Any

import torch
from torch import Tensor

from attnviz.base.formatting import byte_size, enumeration, quoted
from attnviz.biases import BIASES, Bias, Distances
from attnviz.masks import Mask, parse
from attnviz.mechanism import Mechanism, blocks
from attnviz.normalizers import NORMALIZERS, Identity, Normalizer
from attnviz.scores import SCORES, Score
from attnviz.trace.manifest import parse_list
from attnviz.trace.opaque_parts import CellTable, ModelBias, ModelMask
from attnviz.trace.problems import Parsed, TracePlace
from attnviz.trace.schema import MECHANISM, MOST_BIASES

CLASSES: dict[str, type] = {kind.__name__: kind for kind in (*SCORES, *BIASES, Distances, *NORMALIZERS, Identity)}
TABLE = "table"  # a mask or bias of a model as numbers
MOST_CELLS = 64 << 20  # of a mask that has no text
LARGEST_NUMBER = 1 << 20  # of a parameter
SMALLEST_NUMBER = 1e-12  # of a parameter that is not 0: scores divided by less overflow float32
Tensors = dict[str, Tensor]
Sizes = tuple[int, int, int]  # the numbers of queries, keys and heads


class NotSaved(ValueError):
    """A mechanism cannot be written; the message is the end of a sentence that begins with a layer's name."""


def describe_mechanism(mechanism: Mechanism, sizes: Sizes) -> tuple[dict[str, Any], Tensors]:
    """Returns a mechanism for inputs of these sizes as what JSON holds, and its tensors by name.

    Raises NotSaved if a part is a function of the model, or would not be read as it is.
    """
    tensors: Tensors = {}
    described = {
        "score": _describe(mechanism.score, "score", tensors),
        "biases": [_describe_bias(bias, f"biases.{i}", tensors) for i, bias in enumerate(mechanism.biases)],
        "mask": _describe_mask(mechanism.mask, sizes, tensors),
        "normalizer": _describe(mechanism.normalizer, "normalizer", tensors),
    }
    return described, tensors


def parse_mechanism(described: object, tensors: Tensors, sizes: Sizes, place: TracePlace) -> Mechanism | None:
    """Returns the mechanism that `describe_mechanism` has described, the default for None. What is not valid for inputs
    of these sizes is a problem of its part, and None is returned."""
    before, values = len(place.refusals), place.fields({} if described is None else described, MECHANISM)
    score = place.read(values, "score", _sound, _parse, Score, tensors)
    listed = place.read(values, "biases", parse_list, dict, MOST_BIASES) or []
    biases = [
        place.inside(f"biases[{number}]").attempt(_sound, bias, _parse_bias, tensors, sizes)
        for number, bias in enumerate(listed)
    ]
    mask = place.read(values, "mask", _sound, _parse_mask, tensors, sizes)
    normalizer = place.read(values, "normalizer", _sound, _parse, Normalizer, tensors)
    if not values or len(place.refusals) > before:
        return None
    mechanism = Mechanism(score, tuple(biases), mask, normalizer)  # type: ignore[arg-type]  # no part is a problem
    return mechanism if place.attempt(_sound, sizes, lambda sizes: mechanism.bind(*sizes)) else None


def _sound(described: object, parse_part: Callable[..., Parsed], *arguments: Any) -> Parsed:
    """Returns what a function makes of a description, whose parameters may be of any kind."""
    try:
        return parse_part(described, *arguments)
    except (TypeError, AttributeError, IndexError, RuntimeError, OverflowError) as error:
        raise ValueError("A parameter is of the wrong kind or shape. Give it as its class has it.") from error


def _describe(part: object, name: str, tensors: Tensors) -> dict[str, Any]:
    described: dict[str, Any] = {"name": type(part).__name__}
    for one in fields(part):  # type: ignore[arg-type]
        value = getattr(part, one.name)
        if isinstance(value, Tensor):
            tensors[f"{name}.{one.name}"] = value
            described[one.name] = {"tensor": f"{name}.{one.name}"}
        elif one.default is MISSING or value != one.default:
            described[one.name] = value
    try:
        same = _parse(described, object, tensors) == part
    except (ValueError, TypeError):
        same = False
    if not same:
        raise NotSaved(f"{type(part).__name__} cannot be written as text and numbers")
    return described


def _parse(described: object, kind: type, tensors: Tensors) -> Any:
    values: dict[str, Any] = dict(described) if isinstance(described, dict) else {}
    name = values.pop("name", None)
    own: Any = CLASSES.get(name) if isinstance(name, str) else None
    if own is None or not issubclass(own, kind):
        known = [name for name, part in CLASSES.items() if issubclass(part, kind)]
        raise ValueError(
            f"This version of attnviz has no {kind.__name__.lower()} {quoted(name)}. It has {enumeration(known)}."
        )
    names = {one.name for one in fields(own)}
    if unknown := sorted(values.keys() - names):
        raise ValueError(
            f"{name} has no parameter {quoted(unknown[0])}. It has {enumeration(sorted(names)) if names else 'none'}."
        )
    return own(**{key: _parse_value(f"{key} of {name}", value, tensors) for key, value in values.items()})


def _parse_value(name: str, value: object, tensors: Tensors) -> Any:
    if isinstance(value, dict):
        return _tensor(name, value, tensors)
    is_number = isinstance(value, int | float) and math.isfinite(value)
    if not (value is None or isinstance(value, str) or is_number):
        raise ValueError(f"{name} must be a number, a word or a tensor.")
    if isinstance(value, int | float) and value and not SMALLEST_NUMBER <= abs(value) <= LARGEST_NUMBER:
        raise ValueError(
            f"{name} is {value:.4g}; 0 or a size from {SMALLEST_NUMBER} to at most {LARGEST_NUMBER:,} is possible."
        )
    return value


def _tensor(name: str, described: dict[str, Any], tensors: Tensors) -> Tensor:
    tensor = tensors.get(str(described.get("tensor")))
    if tensor is None:
        raise ValueError(f"{name} is a tensor that is not in the layer's file.")
    if not bool(tensor.isfinite().all()):
        raise ValueError(f"{name} holds numbers that are not finite.")
    return tensor


def _describe_bias(bias: Bias, name: str, tensors: Tensors) -> dict[str, Any]:
    if not isinstance(bias, ModelBias):
        return _describe(bias, name, tensors)
    if not isinstance(bias.rule, CellTable):
        raise NotSaved("what it adds to its scores is a function of the model")
    return {"name": TABLE, **_describe_table(bias.rule, name, tensors)}


def _parse_bias(described: object, tensors: Tensors, sizes: Sizes) -> Bias:
    if isinstance(described, dict) and described.get("name") == TABLE:
        return ModelBias(_parse_table(described, tensors, sizes, is_mask=False))
    return _parse(described, Bias, tensors)


def _describe_mask(mask: Mask, sizes: Sizes, tensors: Tensors) -> str | dict[str, Any]:
    if isinstance(mask, ModelMask) and isinstance(mask.rule, CellTable):
        return _describe_table(mask.rule, "mask", tensors)
    try:
        text = str(mask)
        if parse(text) == mask:
            return text
    except (ValueError, AttributeError):  # a function has no text
        pass
    return _describe_table(_cells(mask, *sizes), "mask", tensors)


def _parse_mask(described: object, tensors: Tensors, sizes: Sizes) -> Mask:
    if isinstance(described, str):
        return parse(described)
    if not isinstance(described, dict):
        raise ValueError("A mask must be a text, such as causal, or a table.")
    return ModelMask(_parse_table(described, tensors, sizes, is_mask=True))


def _cells(mask: Mask, queries: int, keys: int, heads: int) -> CellTable:
    """Returns all that a mask allows. Raises NotSaved if that is too much."""
    if queries * keys * heads > MOST_CELLS:
        raise NotSaved(
            f"its mask has no text, and what it allows would take {byte_size(queries * keys * heads)}. "
            "Give it fewer tokens"
        )
    bound, zero = mask.bind(queries, keys, heads), torch.tensor(0)
    h, k = torch.arange(heads)[:, None, None], torch.arange(keys)
    rows = [
        bound(zero, h, torch.arange(first, last)[:, None], k).expand(heads, last - first, keys)
        for first, last in blocks(queries)
    ]
    cells = torch.cat(rows, dim=1)
    return CellTable((cells[:1] if bool((cells == cells[:1]).all()) else cells)[None].clone(), queries, keys)


def _describe_table(table: CellTable, name: str, tensors: Tensors) -> dict[str, Any]:
    tensors[name] = table.cells
    return {"tensor": name, "queries": table.queries, "keys": table.keys}


def _parse_table(described: dict[str, Any], tensors: Tensors, sizes: Sizes, *, is_mask: bool) -> CellTable:
    cells, (all_queries, all_keys, heads) = _tensor("A table", described, tensors), sizes
    queries, keys = described.get("queries"), described.get("keys")
    if isinstance(queries, int) and isinstance(keys, int) and queries > 0 and keys > 0 and cells.ndim == 4:
        possible = (1, -(-all_queries // queries)), (1, heads), (1, queries), (1, keys)
        fits = all(size in sizes for size, sizes in zip(cells.shape, possible, strict=True)) and keys <= all_keys
        if fits and (cells.dtype == torch.bool if is_mask else cells.is_floating_point()):
            return CellTable(cells, queries, keys)
    raise ValueError(
        f"A table must have the axes (groups, heads, queries, keys), for {all_queries:,} queries, {all_keys:,} keys "
        f"and {heads:,} heads."
    )
