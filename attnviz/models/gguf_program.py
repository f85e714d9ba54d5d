"""A GGUF file that is read by a program with limits of time and memory: its head may have millions of texts, and the
library of tokenizers may take any amount of both for a file that is not trusted."""

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gguf import GGMLQuantizationType

from attnviz.base.formatting import byte_size, quoted
from attnviz.base.language import _, value_error
from attnviz.base.limited_process import InputRefusal, run_program, serve_input
from attnviz.models.folder import TOKENIZER_BYTES
from attnviz.models.gguf_file import GgufTensor, read_gguf
from attnviz.models.gguf_keys import config_json
from attnviz.models.gguf_tokenizer import GgufTokenizer, convert_tokenizer

SECONDS, BYTES = 120, 4 << 30  # of a run; the longest vocabularies, without merges, take half a minute
HEAD, TOKENIZER = "head", "tokenizer"  # what is read


@dataclass(frozen=True, eq=False)
class GgufHead:
    """The model in a GGUF file, before its numbers are read."""

    path: Path
    config: dict[str, Any] = field(repr=False)  # as config.json has it
    tensors: tuple[GgufTensor, ...] = field(repr=False)
    kind: str  # its architecture, by its name in GGUF


def read_head(path: Path) -> GgufHead:
    """Returns the config and the tensors of the model in a GGUF file. Raises ValueError if it is damaged, or is not
    read here."""
    config, tensors, kind = json.loads(_run(path, HEAD))
    return GgufHead(
        path,
        config,
        tuple(
            GgufTensor(name, tuple(shape), GGMLQuantizationType(number), offset, size)
            for name, shape, number, offset, size in tensors
        ),
        kind,
    )


def read_tokenizer(path: Path) -> GgufTokenizer:
    """Returns the tokenizer in a GGUF file. Raises ValueError if it cannot be converted."""
    return GgufTokenizer(*json.loads(_run(path, TOKENIZER)))


def _run(path: Path, part: str) -> bytes:
    try:
        return run_program(__name__, path.absolute(), part, data=b"", seconds=SECONDS, memory=BYTES)
    except subprocess.SubprocessError as error:
        raise value_error(
            "Reading {name} takes more than {SECONDS} seconds or {BYTES} of memory, or fails. Take another model.",
            name=quoted(path.name),
            SECONDS=SECONDS,
            BYTES=byte_size(BYTES),
        ) from error


def _serve(_data: bytes, path: str, part: str) -> None:
    try:
        gguf = read_gguf(Path(path))
        if part == HEAD:
            tensors = [(one.name, one.shape, int(one.kind), one.offset, one.size) for one in gguf.tensors]
            sys.stdout.write(json.dumps([config_json(gguf), tensors, gguf.metadata["general.architecture"]]))
            return
    except ValueError as error:
        raise InputRefusal(str(error)) from error
    try:
        converted = json.dumps(convert_tokenizer(gguf)).encode()
    except MemoryError:
        raise
    except BaseException as error:  # a panic of the tokenizers library is not an Exception
        raise InputRefusal(
            _(
                "The tokenizer in {name} cannot be read. The reason given is: {error}. Take another model.",
                name=quoted(gguf.path.name),
                error=quoted(error, 200),
            )
        ) from error
    if len(converted) > TOKENIZER_BYTES:
        raise InputRefusal(
            _(
                "The tokenizer in {name} has {size}; at most {TOKENIZER_BYTES} are read. Take another model.",
                name=quoted(gguf.path.name),
                size=byte_size(len(converted)),
                TOKENIZER_BYTES=byte_size(TOKENIZER_BYTES),
            )
        )
    sys.stdout.buffer.write(converted)


if __name__ == "__main__":
    sys.modules["torch"] = None  # type: ignore[assignment]  # transformers would import it: 2 s, 200 MB
    serve_input(_serve)
