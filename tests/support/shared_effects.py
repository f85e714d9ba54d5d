"""Effects of all heads of a large model, measured once for all tests of pages that show them: on disk, for all workers.

The tests of `attnviz.effects` measure them anew.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock
from torch import Tensor, nn

LARGE = 50_000_000  # parameters


def measured_once(measure: Callable[..., Tensor], folder: Path) -> Callable[..., Tensor]:
    """Returns the function with its results for large models kept in a folder."""

    def measured(model: nn.Module, batch: Any, metric: Any, *, on_progress: Any = None, **options: Any) -> Tensor:
        if sum(each.numel() for each in model.parameters()) < LARGE:
            return measure(model, batch, metric, on_progress=on_progress, **options)
        request = measure.__name__, type(model), str(model.config), read(batch), metric, read(options)
        file = folder / hashlib.sha256(repr(request).encode()).hexdigest()
        with FileLock(f"{file}.lock"):
            if not file.exists():
                np.save(folder / "new.npy", measure(model, batch, metric, on_progress=on_progress, **options).numpy())
                (folder / "new.npy").rename(file)
        result = torch.from_numpy(np.load(file))
        if on_progress:
            on_progress(1.0, result)
        return result

    return measured


def read(value: Any) -> Any:
    """Returns a value with the numbers of its tensors, all of which its `repr` has."""
    if isinstance(value, Tensor):
        return value.tolist()
    if isinstance(value, dict):
        return {name: read(each) for name, each in value.items()}
    return [read(each) for each in value] if isinstance(value, list | tuple) else value
