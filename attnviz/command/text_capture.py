"""The capture of one text, as a task of an engine: in this process, or in one of a Ray cluster."""

import shutil
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attnviz.models.loading import ModelFolder
    from attnviz.models.model import LoadedModel

MOST_TOKENS = 1 << 20  # as many positions as masks are made for


@dataclass(frozen=True)
class CaptureOptions:
    """The settings that the captures of several texts share."""

    model: str  # an id of the hub, or the path of a folder or of a GGUF file
    layers: tuple[int, ...] | None = None  # that are kept; None: all
    dtype: str = ""  # in which the model computes; "": as it is stored
    device_map: str = ""  # of accelerate; "": the model is on one device
    chunk: int | None = None  # tokens that a decoder reads at a time
    gpus: int = 0  # of a task


@dataclass(frozen=True)
class TextTask:
    """A text, and the folder of its trace, in which nothing is that is to be kept."""

    text: str
    output: str


@dataclass(frozen=True)
class TextResult:
    """The outcome of a capture: what it has written, or why it has not."""

    output: str
    layers: int = 0
    tokens: int = 0
    missing: tuple[str, ...] = ()
    problem: str = ""


def capture_text(options: CaptureOptions, task: TextTask) -> TextResult:
    """Writes the trace of a text. What the text or the disk refuses is in the result, so that other texts go on.

    Raises ValueError if the model cannot be loaded.
    """
    model = _model(options)
    if Path(task.output).exists():  # of a process that was killed in the middle: its task is done again
        shutil.rmtree(task.output)
    try:
        trace = model.save_trace(task.output, task.text, options.layers, options.chunk)
    except (OSError, RuntimeError, ValueError) as error:
        return TextResult(task.output, problem=str(error))
    if not trace:
        return TextResult(task.output, missing=trace.missing, problem="No layer was written.")
    return TextResult(task.output, len(trace), trace[0].inputs.queries, trace.missing)


@lru_cache(maxsize=1)
def _model(options: CaptureOptions) -> "LoadedModel":
    """Returns the model, which a process loads once for all its texts."""
    model = model_folder(options).load()
    if options.gpus and not options.device_map:
        model.model.to("cuda")
    return model


def model_folder(options: CaptureOptions) -> "ModelFolder":
    """Returns where the model is, with the options of loading it. Raises ValueError if it is not on this computer."""
    import torch

    from attnviz.models import MINILM, model_cache
    from attnviz.models.gguf_model import inspect_path
    from attnviz.models.hub import model_id
    from attnviz.models.loading import inspect_folder

    if options.device_map and find_spec("accelerate") is None:
        raise ValueError("--device-map needs accelerate, which is not installed. Install it: pip install accelerate")
    name, hub = model_id(options.model) or MINILM, model_cache.HUB
    if (built_in := model_cache.BUILT_IN_MODELS.get(name)) is not None:
        files = built_in.inspect(hub)
    else:
        is_path = model_cache.is_path(name)
        if (folder := name if is_path else hub.folder(name)) is None:
            raise ValueError(f"{name} is not on this computer yet. Download it first: hf download {name}")
        files = inspect_path(name) if is_path else inspect_folder(folder, name)
    dtype = getattr(torch, options.dtype) if options.dtype else files.dtype
    return replace(files, dtype=dtype, device_map=options.device_map or None, most_tokens=MOST_TOKENS)
