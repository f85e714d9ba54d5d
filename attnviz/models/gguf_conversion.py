"""A GGUF file as a model of transformers: its config, its tokenizer, and its weights under the names of transformers.

The mappings are transformers' own (`transformers.modeling_gguf_pytorch_utils`), which reads the same file in 20 to 60
seconds; most of that is not arithmetic.
"""

import errno
import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gguf import MODEL_ARCH_NAMES, get_tensor_name_map
from numpy.typing import NDArray
from tokenizers import Tokenizer, pre_tokenizers
from transformers.integrations.gguf import GGUF_TOKENIZER_MAPPING, convert_gguf_tokenizer
from transformers.modeling_gguf_pytorch_utils import (
    GGUF_CONFIG_DEFAULTS_MAPPING,
    GGUF_CONFIG_MAPPING,
    TENSOR_PROCESSORS,
    TensorProcessor,
)
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from attnviz.formatting import quoted
from attnviz.language import value_error
from attnviz.models.config import build, check_config
from attnviz.models.config_trial import check_trial
from attnviz.models.gguf_file import GgufFile, read_gguf
from attnviz.models.hub import Progress, no_progress
from attnviz.models.loading import check_size

HEADER_END = 4 << 20  # bytes before the weights in model.safetensors, whose header is written last
SPECIAL_TOKENS = {
    "bos_token": "bos_token_id",
    "eos_token": "eos_token_id",
    "unk_token": "unknown_token_id",
    "pad_token": "padding_token_id",
}
# Pre-tokenizers that llama.cpp knows by name and transformers does not.
PRE_TOKENIZERS: dict[str, Callable[[], Any]] = {
    "smollm": lambda: pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
}


def config_json(gguf: GgufFile) -> dict[str, Any]:
    """Returns the config of the model in a file, as config.json has it.

    Raises ValueError for an architecture that transformers does not read from GGUF.
    """
    kind = gguf.metadata.get("general.architecture")
    if not isinstance(kind, str) or kind not in GGUF_CONFIG_MAPPING or kind not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        raise value_error(
            "{name} has the architecture {kind}, which is not read from GGUF here. Choose a model such as a Llama.",
            name=quoted(gguf.path.name),
            kind=quoted(kind),
        )
    config: dict[str, Any] = {
        "model_type": kind,
        "architectures": [MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[kind]],
        "tie_word_embeddings": all(tensor.name != "output.weight" for tensor in gguf.tensors),
        "vocab_size": len(gguf.metadata.get("tokenizer.ggml.tokens", ())),
        **GGUF_CONFIG_DEFAULTS_MAPPING.get(kind, {}),
    }
    mappings: Any = GGUF_CONFIG_MAPPING
    for prefix in (kind, "tokenizer"):
        for key, name in mappings[prefix].items():
            if name and f"{prefix}.{key}" in gguf.metadata:
                config[name] = gguf.metadata[f"{prefix}.{key}"]
    return config


def tokenizer(gguf: GgufFile) -> tuple[Tokenizer, dict[str, Any]]:
    """Returns the tokenizer of the model in a file, and its settings, as tokenizer_config.json has them."""
    known, names = gguf.metadata, GGUF_TOKENIZER_MAPPING
    values = {
        name: known[f"tokenizer.{key}"] for key, name in names["tokenizer"].items() if f"tokenizer.{key}" in known
    }
    made, _more = convert_gguf_tokenizer(known["general.architecture"], values)
    if (pre_tokenizer := PRE_TOKENIZERS.get(values.get("pre_tokenizer_type", ""))) is not None:
        made.pre_tokenizer = pre_tokenizer()
    tokens = values["tokens"]
    numbers = {name: known.get(f"tokenizer.ggml.{key}") for name, key in SPECIAL_TOKENS.items()}
    config = {name: tokens[number] for name, number in numbers.items() if number is not None}
    options = names["tokenizer_config"]
    config |= {name: known[f"tokenizer.{key}"] for key, name in options.items() if f"tokenizer.{key}" in known}
    return made, config


@dataclass(frozen=True, eq=False)
class ConvertedModel:
    """The model in a GGUF file, in the form of transformers."""

    config: dict[str, Any]  # as config.json has it
    tokenizer: Tokenizer
    tokenizer_config: dict[str, Any]
    size: int  # bytes of the weights
    weights: Iterator[tuple[str, NDArray[np.float32]]]  # by name; dequantized one at a time


def convert(path: Path, progress: Progress = no_progress) -> ConvertedModel:
    """Returns the model in a GGUF file; calls `progress` with the bytes done and in total while its weights are taken.

    Raises ValueError if it cannot be read or built, or does not fit into memory.
    """
    gguf = read_gguf(path)
    name, config = path.name, config_json(gguf)
    count = sum(tensor.count for tensor in gguf.tensors)
    size = count * np.dtype(np.float32).itemsize
    check_config(name, config)
    check_size(name, count, size)
    check_trial(name, config, len(gguf.tensors))
    return ConvertedModel(config, *tokenizer(gguf), size, _weights(gguf, config, progress))


def _weights(gguf: GgufFile, config: dict[str, Any], progress: Progress) -> Iterator[tuple[str, NDArray[np.float32]]]:
    model = build(gguf.path.name, config, len(gguf.tensors))[-1]
    processor = TENSOR_PROCESSORS.get(config["model_type"], TensorProcessor)(config=config)
    names = weight_names(model, processor, gguf.metadata["general.architecture"])
    merged: dict[str, dict[str, Any]] = {"tensors": {}}  # what a processor makes of several
    done, size = 0, sum(tensor.size for tensor in gguf.tensors)
    for tensor in gguf.tensors:
        result = processor.process(
            weights=gguf.numbers(tensor), name=tensor.name, tensor_key_mapping=names, parsed_parameters=merged
        )
        if result.name in names:
            yield names[result.name], np.ascontiguousarray(result.weights)
        done += tensor.size
        progress(done, size)
    for name, numbers in merged["tensors"].items():
        yield name, numbers.numpy()


def weight_names(model: Any, processor: TensorProcessor, architecture: str) -> dict[str, str]:
    """Returns the names of a model's weights in transformers, by those in GGUF, as transformers'
    `get_gguf_hf_weights_map` does within seconds."""
    number = next(number for number, name in MODEL_ARCH_NAMES.items() if name == architecture)
    known = get_tensor_name_map(number, model.config.num_hidden_layers)
    names: dict[str, str] = {}
    for own in map(processor.preprocess_name, model.state_dict()):
        stem, _dot, end = own.rpartition(".")
        stem, end = (stem, f".{end}") if end in ("weight", "bias") else (own, "")
        # Some were named as the weights of the model without its head.
        if (stored := known.get_name(stem) or known.get_name(stem.partition(".")[2])) is not None:
            names[stored + end] = own
        else:
            processor.perform_fallback_tensor_mapping(names, end, "", own)
    return names


def write_folder(path: Path, folder: Path, progress: Progress = no_progress) -> None:
    """Writes the model in a GGUF file into a folder, as save_pretrained does, with one of its tensors in memory at a
    time.

    Raises OSError if the folder cannot be written, and ValueError as `convert` does.
    """
    model = convert(path, progress)
    if shutil.disk_usage(folder).free < model.size:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))
    model.tokenizer.save(str(folder / "tokenizer.json"))
    tokenizer_config = {"tokenizer_class": "PreTrainedTokenizerFast", **model.tokenizer_config}
    for name, content in (("config", model.config), ("tokenizer_config", tokenizer_config)):
        (folder / f"{name}.json").write_text(json.dumps(content, indent=2), encoding="utf-8")
    with (folder / "model.safetensors").open("wb") as file:
        header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
        end = file.seek(HEADER_END)
        for name, numbers in model.weights:
            offsets = end - HEADER_END, end + numbers.nbytes - HEADER_END
            header[name] = {"dtype": "F32", "shape": numbers.shape, "data_offsets": offsets}
            end += file.write(numbers.data)
        written = json.dumps(header).encode()
        file.seek(0)
        file.write((HEADER_END - 8).to_bytes(8, "little") + written.ljust(HEADER_END - 8))
