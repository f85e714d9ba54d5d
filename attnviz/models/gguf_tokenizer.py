"""The tokenizer in a GGUF file, in the form of transformers.

It is converted by a program with limits of time and memory, since the library of tokenizers may take any amount of both
for a file that is not trusted.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tokenizers import pre_tokenizers

from attnviz.formatting import byte_size, quoted
from attnviz.language import _, value_error
from attnviz.limited_process import InputRefusal, run_program, serve_input
from attnviz.models.folder import TOKENIZER_BYTES
from attnviz.models.gguf_file import GgufFile, read_gguf

SECONDS, BYTES = 120, 4 << 30  # of a conversion; the longest vocabularies, without merges, take half a minute
SPECIAL_TOKENS = {
    "bos_token": "bos_token_id",
    "eos_token": "eos_token_id",
    "unk_token": "unknown_token_id",
    "pad_token": "padding_token_id",
}
AROUND = ("add_bos_token", "add_eos_token")  # settings that are in tokenizer.json
# Pre-tokenizers that llama.cpp knows by name and transformers does not.
PRE_TOKENIZERS: dict[str, Callable[[], Any]] = {
    "smollm": lambda: pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
}


class GgufTokenizer(NamedTuple):
    """The contents of tokenizer.json and of tokenizer_config.json."""

    tokenizer: str
    config: dict[str, Any]


def gguf_tokenizer(path: Path) -> GgufTokenizer:
    """Returns the tokenizer in a GGUF file. Raises ValueError if it cannot be converted, or takes too much time or
    memory."""
    try:
        converted = run_program(__name__, path, data=b"", seconds=SECONDS, memory=BYTES)
    except subprocess.SubprocessError as error:
        raise value_error(
            "The tokenizer in {name} takes more than {SECONDS} seconds or {BYTES} of memory, or fails. Take another "
            "model.",
            name=quoted(path.name),
            SECONDS=SECONDS,
            BYTES=byte_size(BYTES),
        ) from error
    return GgufTokenizer(*json.loads(converted))


def convert_tokenizer(gguf: GgufFile) -> GgufTokenizer:
    """Returns the tokenizer in a GGUF file, as transformers' `AutoTokenizer.from_pretrained(gguf_file=…)` makes it."""
    from transformers import PreTrainedTokenizerFast
    from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_TOKENIZER_MAPPING, convert_gguf_tokenizer

    known = gguf.metadata
    values, config = (
        {name: known[f"tokenizer.{key}"] for key, name in names.items() if f"tokenizer.{key}" in known}
        for names in (GGUF_TOKENIZER_MAPPING["tokenizer"], GGUF_TOKENIZER_MAPPING["tokenizer_config"])
    )
    tokenizer, _more = convert_gguf_tokenizer(known["general.architecture"], values)
    if (pre_tokenizer := PRE_TOKENIZERS.get(values.get("pre_tokenizer_type", ""))) is not None:
        tokenizer.pre_tokenizer = pre_tokenizer()
    if values["tokenizer_type"] == "llama":
        config.setdefault("add_bos_token", True)  # files from before there was this setting
    for name, key in SPECIAL_TOKENS.items():
        if (number := known.get(f"tokenizer.ggml.{key}")) is not None:
            config[name] = values["tokens"][number]
    whole = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **config)  # with what it puts around each text
    kept = {name: value for name, value in config.items() if name not in AROUND}
    return GgufTokenizer(whole.backend_tokenizer.to_str(), {"tokenizer_class": "PreTrainedTokenizerFast", **kept})


def _serve(_data: bytes, path: str) -> None:
    gguf = read_gguf(Path(path))
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
