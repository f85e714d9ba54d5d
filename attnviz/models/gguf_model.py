"""Models in GGUF files: converted once into the cache folder, or in memory where that cannot be written."""

import logging
from dataclasses import replace
from pathlib import Path

import torch
from transformers import PreTrainedTokenizerFast

from attnviz.formatting import quoted
from attnviz.language import _
from attnviz.models.conversion_cache import converted_folder
from attnviz.models.hub import Progress, no_progress
from attnviz.models.loading import ModelFolder, inspect_folder, inspect_weights

VERSION = 1  # of the conversion: one more when it gives other files

_LOGGER = logging.getLogger(__name__)


def inspect_gguf(file: Path, name: str, digest: str, progress: Progress = no_progress) -> ModelFolder:
    """Returns the model in a GGUF file before its weights are read; converts the file if that was not done before, and
    calls `progress` with the bytes done and in total.

    `digest` is the SHA-256 of the file. Raises ValueError if it is not a model that can be read.
    """

    def write(folder: Path) -> None:
        from attnviz.models.gguf_conversion import write_folder  # which takes 0.3 seconds, once

        write_folder(file, folder, progress)

    try:
        return inspect_folder(converted_folder(f"{digest}-{VERSION}", write), name)
    except OSError as error:
        note = _(
            "{name} cannot be kept in the cache folder, so it is converted again at every start. The reason given is: "
            "{reason}. Free some space, or set ATTNVIZ_CACHE to a folder that can be written.",
            name=name,
            reason=quoted(str(error)),
        )
    _LOGGER.warning("%s", note)
    from attnviz.models.gguf_conversion import convert

    converted = convert(file, progress)
    tensors = {name: torch.from_numpy(numbers) for name, numbers in converted.weights}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=converted.tokenizer, **converted.tokenizer_config)
    model = inspect_weights(name, converted.config, tensors, tokenizer)
    return replace(model, notes=(*model.notes, note))
