"""A GGUF file as a model of transformers: its config, its tokenizer, and its weights under the names of transformers.

transformers reads the same file in 20 to 60 seconds (`from_pretrained(gguf_file=…)`); most of that is not arithmetic.
"""

import errno
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnviz.models.config import build, check_config
from attnviz.models.config_trial import check_trial
from attnviz.models.gguf_program import GgufHead, read_head, read_tokenizer
from attnviz.models.gguf_tokenizer import GgufTokenizer
from attnviz.models.gguf_weights import Weight, placed_weights
from attnviz.models.hub import Progress, no_progress
from attnviz.models.loading import check_size

HEADER_END = 4 << 20  # bytes before the weights in model.safetensors, whose header is written last


@dataclass(frozen=True, eq=False)
class Conversion:
    """The model in a GGUF file, in the form of transformers, before its numbers are read."""

    head: GgufHead
    weights: list[Weight]

    @property
    def size(self) -> int:
        """The bytes of the weights."""
        return sum(tensor.count for tensor in self.head.tensors) * np.dtype(np.float32).itemsize

    def tokenizer(self) -> GgufTokenizer:
        """Returns the tokenizer. Raises ValueError if it cannot be converted."""
        return read_tokenizer(self.head.path)

    def numbers(self, progress: Progress = no_progress) -> Iterator[tuple[Weight, Iterator[NDArray[np.float32]]]]:
        """Yields the weights and their numbers, in parts; calls `progress` with the bytes done and in total. Raises
        ValueError if they cannot be read."""
        done = 0

        def parts(weight: Weight) -> Iterator[NDArray[np.float32]]:
            nonlocal done
            for part in weight.parts():
                yield part
                done += part.nbytes
                progress(done, self.size)

        return ((weight, parts(weight)) for weight in self.weights)

    def write(self, folder: Path, progress: Progress = no_progress) -> None:
        """Writes the model into a folder, as save_pretrained does. Raises OSError if the folder cannot be written, and
        ValueError if a part of the file cannot be read."""
        if shutil.disk_usage(folder).free < self.size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))
        tokenizer = self.tokenizer()
        (folder / "tokenizer.json").write_text(tokenizer.tokenizer, encoding="utf-8")
        for name, content in (("config", self.head.config), ("tokenizer_config", tokenizer.config)):
            (folder / f"{name}.json").write_text(json.dumps(content, indent=2), encoding="utf-8")
        with (folder / "model.safetensors").open("wb") as file:
            header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
            end = file.seek(HEADER_END)
            for weight, parts in self.numbers(progress):
                start = end
                for part in parts:
                    end += file.write(part.data)
                offsets = start - HEADER_END, end - HEADER_END
                header[weight.name] = {"dtype": "F32", "shape": weight.shape, "data_offsets": offsets}
            written = json.dumps(header).encode()
            file.seek(0)
            file.write((HEADER_END - 8).to_bytes(8, "little") + written.ljust(HEADER_END - 8))


def planned_conversion(path: Path) -> Conversion:
    """Returns the model in a GGUF file, before its numbers are read. Raises ValueError if it is not a model that is
    read here, does not fit into memory, or has not exactly the tensors that its config needs."""
    head = read_head(path)
    name, count = path.name, sum(tensor.count for tensor in head.tensors)
    check_config(name, head.config)
    check_size(name, count, count * np.dtype(np.float32).itemsize)
    check_trial(name, head.config, len(head.tensors))
    return Conversion(head, placed_weights(head, build(name, head.config, len(head.tensors))[-1]))
