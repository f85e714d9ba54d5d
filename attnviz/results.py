"""Results of measurements in files: their numbers, and what they were measured on. Nothing is unpickled.

A file is one of safetensors. The entry "attnviz" of its metadata is JSON: the format and its version, the model, the
precision of its weights, the tokens of the text, the question that was asked, and the result, in which each array
stands by its name. Files may come from anybody: sizes are checked before anything is read, and only classes of CLASSES
are made of what is read.
"""

import json
import os
import stat
import struct
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from importlib import import_module
from pathlib import Path
from typing import Any, Self, get_type_hints

import numpy as np
import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from attnviz.base.formatting import grouped, quoted, short_repr
from attnviz.base.language import value_error
from attnviz.base.token_texts import TokenTexts, texts_of_batch, token_names

FORMAT, VERSION, ENTRY = "attnviz result", 1, "attnviz"
MOST_HEADER = 8 << 20  # bytes: a hundred thousand tokens take about 2 MB
MOST_ARRAYS = 4_096
MOST_DEPTH = 12  # of parts within parts
MOST_DIGITS = 20  # of an integer
# What a result is made of, and where it is.
CLASSES = {
    "Attribution": "attnviz.attribution", "LayerId": "attnviz.layer", "Logit": "attnviz.attribution.metrics",
    "LogitDifference": "attnviz.attribution.metrics", "Score": "attnviz.attribution.metrics",
    "Activation": "attnviz.attribution.metrics", "CarriedValue": "attnviz.attribution.metrics",
    "Probability": "attnviz.effects.metrics", "Loss": "attnviz.effects.metrics", "KL": "attnviz.effects.metrics",
    "Cosine": "attnviz.effects.metrics", "LayerPredictions": "attnviz.effects", "Patching": "attnviz.effects",
    "Compensation": "attnviz.effects", "Shares": "attnviz.effects.compensation",
    "HeadMetricTable": "attnviz.analysis.head_metrics", "PerText": "attnviz.models.texts",
    "Atlas": "attnviz.analysis.atlas", "LookedTokens": "attnviz.analysis.atlas",
    "NeuronExamples": "attnviz.effects", "CircuitCurves": "attnviz.effects", "ModelPart": "attnviz.effects",
    "AtlasPart": "attnviz.analysis.atlas_part", "Examples": "attnviz.analysis.atlas_examples",
    "MlpCounts": "attnviz.analysis.atlas_mlps",
}  # fmt: skip


class MeasuredResult:
    """A result that can be saved, and that is a table."""

    def save(self, path: str | Path, **about: Any) -> None:
        """Writes it into a file, as `attnviz.save` does."""
        save(path, self, **about)

    def to_frame(self) -> Any:
        """Returns its numbers as a table of pandas, a row for each. Raises ImportError without pandas."""
        import pandas as pd

        return pd.DataFrame(self.columns())

    def columns(self) -> dict[str, Any]:
        """Returns the columns of the table."""
        raise NotImplementedError

    def origin(self) -> dict[str, Any]:
        """Returns the arguments of `save` that the result has itself."""
        return {}

    def parts(self) -> dict[str, Any]:
        """Returns the saved parts, by name."""
        return {one.name: getattr(self, one.name) for one in fields(self)}  # type: ignore[arg-type]

    @classmethod
    def from_parts(cls, parts: dict[str, Any]) -> Self:
        """Returns the result of what was saved."""
        return checked(cls, parts)


@dataclass(frozen=True, eq=False)
class SavedResult:
    """A result of a file, and the model and the texts it was measured on; "" and None where these are not known."""

    result: Any  # of the class that was saved, or a tensor, or a tuple of several
    model: str  # its name
    weights: str  # their precision, such as "float32" or "Q4_1, from a GGUF file"
    tokens: tuple[str, ...]  # of the text
    ids: tuple[int, ...]  # of the tokens
    metric: Any  # the question, such as a `Logit`


def save(
    path: str | Path,
    result: Any,
    *,
    model: Any = None,
    weights: str = "",
    batch: Any = None,
    tokens: TokenTexts = (),
    metric: Any = None,
) -> None:
    """Writes a result into a file: one of the classes of results, several of them, or a tensor, such as that of
    `attnviz.effects.ablations`.

    `model` is the model, a loaded one, or its name; `weights` says their precision, by default as the model does.
    `batch` is what the model was called with, and `tokens` are the texts of its tokens, or what makes them of ids, such
    as a tokenizer. `metric` is the question. An `Attribution` knows its model, ids and metric itself. Raises ValueError
    for what is no result, and if the file cannot be written.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     save(f"{folder}/effects.safetensors", torch.eye(2), model="gpt2", tokens=["it", "is"])
        ...     saved = load(f"{folder}/effects.safetensors")
        >>> saved.model, saved.tokens, saved.result.tolist()
        ('gpt2', ('it', 'is'), [[1.0, 0.0], [0.0, 1.0]])
    """
    own = result.origin() if isinstance(result, MeasuredResult) else {}
    model, batch = own.get("model") if model is None else model, own.get("batch") if batch is None else batch
    ids = _ids(batch)
    arrays: dict[str, Tensor] = {}
    header = {
        "format": FORMAT,
        "version": VERSION,
        "model": _model_name(model),
        "weights": weights or _precision(model),
        "tokens": [*(token_names(tokens, ids) if tokens else texts_of_batch(batch, 0))],
        "ids": ids,
        "metric": _encoded(own.get("metric") if metric is None else metric, "metric", arrays),
        "result": _encoded(result, "result", arrays),
    }
    place = Path(path).expanduser()
    draft = place.with_name(f"{place.name}.draft")
    try:
        draft.unlink(missing_ok=True)  # which may be a link to something else
        safetensors.torch.save_file(arrays, draft, {ENTRY: json.dumps(header, ensure_ascii=False)})
        os.replace(draft, place)
    except (OSError, safetensors.SafetensorError) as error:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise value_error("{name} cannot be written: {reason}", name=quoted(place.name), reason=str(error)) from error


def load(path: str | Path) -> SavedResult:
    """Returns the result that `save` has written. Raises ValueError for another file, for one of a later version, and
    for one that is damaged or too large."""
    place = Path(path).expanduser()
    _check_file(place)
    try:
        with safetensors.safe_open(place, "pt") as file:
            header = json.loads((file.metadata() or {}).get(ENTRY, "null"), parse_int=_number)
            names = [*file.keys()]
            version = header.get("version") if isinstance(header, dict) and header.get("format") == FORMAT else None
            if type(version) is not int or version < 1:
                raise value_error("{name} holds no result of attnviz.", name=quoted(place.name))
            if version > VERSION:
                raise value_error(
                    "{name} was written by a later version of attnviz. Update attnviz.", name=quoted(place.name)
                )
            if len(names) > MOST_ARRAYS:
                raise TypeError
            arrays = {name: file.get_tensor(name) for name in names}
        parts = ("result", "metric", "tokens", "ids", "model", "weights")
        return checked(SavedResult, {name: _decoded(header[name], arrays) for name in parts})
    except (
        *(safetensors.SafetensorError, OSError, RuntimeError, OverflowError, RecursionError, UnicodeError),
        *(TypeError, KeyError, AttributeError, json.JSONDecodeError),
    ) as error:
        raise value_error(
            "{name} cannot be read: it was damaged, cut off, or written by something else.", name=quoted(place.name)
        ) from error


def checked(kind: Callable[..., Any], parts: Mapping[str, Any]) -> Any:
    """Returns a dataclass of parts. Raises TypeError if one is missing, unknown, or of another type than its own."""
    for name, hint in get_type_hints(kind).items():
        if name in parts and not _fits(parts[name], hint):
            raise TypeError(f"{name} is {short_repr(parts[name])}")
    return kind(**parts)


def grid_columns(names: Sequence[str], **arrays: Any) -> dict[str, Any]:
    """Returns arrays of one shape as columns, after those of their indices, which have these names."""
    numbers = {name: np.asarray(array) for name, array in arrays.items()}
    shape = next(iter(numbers.values())).shape
    places = np.indices(shape).reshape(len(shape), -1)
    axes = [*names, *(f"axis {i}" for i in range(len(names), len(shape)))]
    return dict(zip(axes, places, strict=False)) | {name: array.reshape(-1) for name, array in numbers.items()}


def _fits(value: Any, hint: Any) -> bool:
    """Returns whether a value is of a type, where that is one of arrays, of numbers or of texts."""
    if hint is float:
        return isinstance(value, float | int) and not isinstance(value, bool)
    if hint is int:
        return type(value) is int
    if sizes := getattr(hint, "dim_str", ""):
        count = None if "..." in sizes else len(sizes.split())
        if not isinstance(value, hint.array_type) or count not in (None, value.ndim):
            return False
        return str(value.dtype).removeprefix("torch.") in hint.dtypes
    if getattr(hint, "__origin__", None) is tuple:
        kind = hint.__args__[0]
        return isinstance(value, tuple) and (hint.__args__[-1] is not ... or all(_fits(one, kind) for one in value))
    if getattr(hint, "__origin__", None) is dict:
        kind = hint.__args__[1]
        return isinstance(value, dict) and all(isinstance(key, str) and _fits(value[key], kind) for key in value)
    return hint not in (str, bool) or isinstance(value, hint)


def _encoded(value: Any, name: str, arrays: dict[str, Tensor]) -> Any:
    """Returns a value as JSON has it, and puts its arrays among the others by names."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Tensor | np.ndarray):
        tensor = torch.from_numpy(np.ascontiguousarray(value)) if isinstance(value, np.ndarray) else value.detach()
        arrays[name] = tensor.cpu().clone(memory_format=torch.contiguous_format)
        return {"array": name, "of": "numpy" if isinstance(value, np.ndarray) else "torch"}
    if isinstance(value, Mapping):
        return {"map": {str(key): _encoded(one, f"{name}.{key}", arrays) for key, one in value.items()}}
    if type(value).__name__ in CLASSES:
        parts = value.parts() if isinstance(value, MeasuredResult) else dict(vars(value))
        return {"class": type(value).__name__, "parts": _encoded(parts, name, arrays)["map"]}
    if isinstance(value, list | tuple):
        return [_encoded(one, f"{name}.{i}", arrays) for i, one in enumerate(value)]
    if name == "metric":
        raise value_error(
            "A metric of one's own cannot be saved with its result. Leave out metric=…, or give its name as text."
        )
    raise value_error(
        "A {kind} cannot be saved. Give a result, several, or a tensor of numbers.", kind=type(value).__name__
    )


def _number(digits: str) -> int:
    """Returns an integer of JSON. Raises OverflowError for one of more digits than any of a result has."""
    if len(digits) > MOST_DIGITS:
        raise OverflowError
    return int(digits)


def _decoded(value: Any, arrays: Mapping[str, Tensor], depth: int = 0) -> Any:
    """Returns a value of what `_encoded` has made of it."""
    if depth > MOST_DEPTH:
        raise TypeError
    if isinstance(value, list):
        return tuple(_decoded(one, arrays, depth + 1) for one in value)
    if isinstance(value, str):
        value.encode()  # half of a pair of surrogates can be written nowhere
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return arrays[value["array"]].numpy() if value["of"] == "numpy" else arrays[value["array"]]
    parts = {
        name: _decoded(one, arrays, depth + 1) for name, one in value["parts" if "class" in value else "map"].items()
    }
    if "class" not in value:
        return parts
    kind: Any = getattr(import_module(CLASSES[value["class"]]), value["class"])
    return kind.from_parts(parts) if issubclass(kind, MeasuredResult) else checked(kind, parts)


def _check_file(path: Path) -> None:
    """Raises ValueError for a file that is missing or none, and for one whose header is too large."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise value_error("{name} is not a file. Give that of a result.", name=quoted(path.name))
        with path.open("rb") as file:
            start = file.read(8)
    except OSError as error:
        raise value_error("{name} cannot be opened: {reason}", name=quoted(path.name), reason=error.strerror) from error
    size = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
    if size > MOST_HEADER:
        raise value_error(
            "{name} has a header of {size} bytes; at most {most} are read.",
            name=quoted(path.name),
            size=grouped(size),
            most=grouped(MOST_HEADER),
        )


def _ids(batch: Any) -> list[int]:
    """Returns the ids of the tokens of one text; none where they are not known."""
    ids = batch.get("input_ids") if isinstance(batch, Mapping) else batch
    if not isinstance(ids, Tensor) or ids.is_floating_point() or ids.ndim > 2 or (ids.ndim == 2 and len(ids) != 1):
        return []
    return [int(one) for one in ids.flatten().tolist()]


def _model_name(model: Any) -> str:
    if isinstance(model, str) or model is None:
        return model or ""
    if not isinstance(model, nn.Module):
        return str(getattr(model, "name", ""))  # of a loaded model
    return str(getattr(getattr(model, "config", None), "name_or_path", "") or type(model).__name__)


def _precision(model: Any) -> str:
    """Returns how precise the weights of a model are: those of a GGUF file, or the types of its parameters."""
    own = model if isinstance(model, nn.Module) else getattr(model, "model", None)
    if not isinstance(own, nn.Module):
        return ""
    if quantized := getattr(getattr(own, "config", None), "gguf_type", ""):
        return f"{quantized}, from a GGUF file"
    return ", ".join(sorted({str(one.dtype).removeprefix("torch.") for one in own.parameters()}))
