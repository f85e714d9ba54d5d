"""Models in GGUF files: converted once into the cache folder."""

import hashlib
import logging
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from attnviz.base.formatting import grouped, quoted
from attnviz.base.language import N_, later, value_error
from attnviz.models.conversion_cache import converted_folder, unwritable_cache
from attnviz.models.folder import check_file
from attnviz.models.gguf_file import MAGIC
from attnviz.models.hub import Progress, no_progress
from attnviz.models.loading import ModelFolder, inspect_folder, inspect_weights

if TYPE_CHECKING:
    from attnviz.models.gguf_conversion import Conversion

VERSION = 3  # of the conversion: one more when it gives other files
SUFFIX = ".gguf"
PART = 16 << 20  # bytes of a file that are read at once for its digest

_LOGGER = logging.getLogger(__name__)


def inspect_path(path: str | Path, progress: Progress = no_progress) -> ModelFolder:
    """Returns the model in a folder, or in a GGUF file, before its weights are read; a folder may hold nothing but such
    a file. Raises ValueError as `inspect_folder` and `inspect_gguf` do."""
    file = find_gguf(Path(path).expanduser())
    if file is None:
        return inspect_folder(path)
    plan = _planned(file)  # which refuses most files before all of them is read
    plan()
    return inspect_gguf(file, file.stem, _digest(file, progress), progress, plan=plan)


def _planned(file: Path) -> "Callable[[], Conversion]":
    """Returns a function that plans the conversion of a file, once."""

    @cache
    def plan() -> "Conversion":
        from attnviz.models.gguf_conversion import planned_conversion  # which takes 0.3 seconds, once

        return planned_conversion(file)

    return plan


def _digest(file: Path, progress: Progress) -> str:
    """Returns the SHA-256 of a file."""
    digest, size, done = hashlib.sha256(), file.stat().st_size, 0
    with file.open("rb") as opened:
        while part := opened.read(PART):
            digest.update(part)
            done += len(part)
            progress(done, size)
    return digest.hexdigest()


def find_gguf(path: Path) -> Path | None:
    """Returns a path of a GGUF file, or the GGUF file in a folder that has no weights as safetensors; else None.

    Raises ValueError if there are several.
    """
    try:
        if path.is_file():
            with path.open("rb") as file:
                return path if path.suffix == SUFFIX or file.read(len(MAGIC)) == MAGIC else None
        names = [entry.name for entry in path.iterdir()] if path.is_dir() else []
    except OSError:  # which `open_folder` reports
        return None
    files = sorted(name for name in names if name.endswith(SUFFIX))
    if not files or any(name.endswith(".safetensors") for name in names):
        return None
    if len(files) > 1:
        raise value_error(
            "{folder} holds {count} GGUF files. Give the path of the file itself, such as {file}.",
            folder=quoted(path.name),
            count=grouped(len(files)),
            file=quoted(path / files[0], 200),
        )
    check_file(path, path / files[0])
    return path / files[0]


def inspect_gguf(
    file: Path,
    name: str,
    digest: str,
    progress: Progress = no_progress,
    *,
    trusted: bool = False,
    plan: "Callable[[], Conversion] | None" = None,
) -> ModelFolder:
    """Returns the model in a GGUF file before its weights are read; converts the file if that was not done before, and
    calls `progress` with the bytes done and in total.

    `digest` is the SHA-256 of the file, and `trusted` whether its tokenizer may run in this process. Raises ValueError
    if it is not a model that can be read. Where the cache folder cannot be written, a trusted file is converted in
    memory, and another is refused.
    """
    plan = plan or _planned(file)

    def write(folder: Path) -> None:
        plan().write(folder, progress)

    try:
        return replace(inspect_folder(converted_folder(f"{digest}-{VERSION}", write), name), trusted=trusted)
    except OSError as error:
        if not trusted:
            raise unwritable_cache(name, error) from error
        problem = quoted(str(error))
    note = later(
        N_(
            "{name} cannot be kept in the cache folder, so it is converted again at every start. The reason given is: "
            "{reason}. Free some space, or set ATTNVIZ_CACHE to a folder that can be written."
        ),
        name=name,
        reason=problem,
    )
    _LOGGER.warning("%s", note())
    conversion = plan()
    written = conversion.tokenizer()
    tensors = {
        weight.name: torch.from_numpy(np.concatenate([part.ravel() for part in parts])).view(weight.shape)
        for weight, parts in conversion.numbers(progress)
    }
    own, settings = Tokenizer.from_str(written.tokenizer), dict(written.config)
    settings.pop("tokenizer_class")
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=own, **settings)
    model = inspect_weights(name, conversion.head.config, tensors, tokenizer)
    return replace(model, notes=(*model.notes, note), trusted=trusted)
