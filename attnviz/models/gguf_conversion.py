"""A GGUF file as a model of transformers: its config, its tokenizer, and its weights under the names of transformers.

The mappings are transformers' own (`transformers.modeling_gguf_pytorch_utils`), which reads the same file in 20 to 60
seconds; most of that is not arithmetic.
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
from gguf import MODEL_ARCH_NAMES, get_tensor_name_map
from numpy.typing import NDArray
from transformers.modeling_gguf_pytorch_utils import (
    GGUF_CONFIG_DEFAULTS_MAPPING,
    GGUF_CONFIG_MAPPING,
    TENSOR_PROCESSORS,
    TensorProcessor,
)
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from attnviz.formatting import quoted
from attnviz.language import N_, _, value_error
from attnviz.models.config import build, check_config
from attnviz.models.config_trial import check_trial
from attnviz.models.gguf_file import GgufFile, GgufTensor, read_gguf
from attnviz.models.gguf_tokenizer import GgufTokenizer, gguf_tokenizer
from attnviz.models.hub import Progress, no_progress
from attnviz.models.loading import check_size
from attnviz.models.readable_errors import as_value_error

HEADER_END = 4 << 20  # bytes before the weights in model.safetensors, whose header is written last
# The types of models in GGUF that transformers has by another name.
MODEL_TYPES = {"qwen2moe": "qwen2_moe", "qwen3moe": "qwen3_moe", "gemma3": "gemma3_text"}
ARCHITECTURES = (
    *("llama", "qwen2", "qwen2moe", "qwen3", "qwen3moe", "gemma2", "gemma3", "phi3", "falcon", "bloom", "gpt2"),
    *("stablelm", "starcoder2", "nemotron"),
)
# What transformers leaves at the defaults of the config, which are those of one model.
MORE_KEYS = {
    "qwen2moe": {
        "expert_feed_forward_length": "moe_intermediate_size",
        "expert_shared_feed_forward_length": "shared_expert_intermediate_size",
    },
    "qwen3": {"attention.key_length": "head_dim"},
    "qwen3moe": {"expert_feed_forward_length": "moe_intermediate_size"},
    "phi3": {"attention.sliding_window": "sliding_window"},
    "gpt2": {"context_length": "n_positions"},
}
ROPE_FACTORS = "rope_freqs.weight"  # by which the frequencies of rotary positions are divided, as in Llama 3.1
MOST_FACTORS = 1 << 12  # one for each pair of the numbers of a head
SCALINGS = ("linear", "yarn")  # of rotary positions, that both have by the same names
WRONG_SHAPE = N_("the config needs one of another shape")


def config_json(gguf: GgufFile) -> dict[str, Any]:
    """Returns the config of the model in a file, as config.json has it.

    Raises ValueError for an architecture that is not read from GGUF.
    """
    kind = gguf.metadata.get("general.architecture")
    if kind not in ARCHITECTURES:
        raise value_error(
            "{name} has the architecture {kind}, which is not read from GGUF here. Choose a model of one of these: "
            "{ARCHITECTURES}.",
            name=quoted(gguf.path.name),
            kind=quoted(kind),
            ARCHITECTURES=", ".join(ARCHITECTURES),
        )
    model_type, stored = MODEL_TYPES.get(kind, kind), {tensor.name for tensor in gguf.tensors}
    config: dict[str, Any] = {
        "model_type": model_type,
        "architectures": [MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[model_type]],
        "tie_word_embeddings": "output.weight" not in stored or kind in ("falcon", "bloom"),
        "vocab_size": _count(gguf.metadata.get("tokenizer.ggml.tokens")),
        **GGUF_CONFIG_DEFAULTS_MAPPING.get(model_type, {}),
    }
    if kind == "stablelm":
        config["use_qkv_bias"] = any(name.endswith(("attn_q.bias", "attn_k.bias", "attn_v.bias")) for name in stored)
        config["use_parallel_residual"] = not any("ffn_norm" in name for name in stored)
    mappings: Any = GGUF_CONFIG_MAPPING
    own = mappings.get(model_type, mappings.get(kind)) | MORE_KEYS.get(kind, {})
    for prefix, names in ((kind, own), ("tokenizer", mappings["tokenizer"])):
        for key, name in names.items():
            if name and f"{prefix}.{key}" in gguf.metadata:
                config[name] = gguf.metadata[f"{prefix}.{key}"]
    if config.get("sliding_window") == 0:  # that of Phi-4, which has none
        config["sliding_window"] = None
    return config | _rope_scaling(gguf, kind)


def _count(values: Any) -> int:
    return len(values) if isinstance(values, list) else 0


def _rope_scaling(gguf: GgufFile, kind: str) -> dict[str, Any]:
    """Returns the scaling of rotary positions as config.json has it, which transformers does not read from GGUF."""
    prefix = f"{kind}.rope.scaling"
    method, original = (gguf.metadata.get(f"{prefix}.{key}") for key in ("type", "original_context_length"))
    factors = next((tensor for tensor in gguf.tensors if tensor.name == ROPE_FACTORS), None)
    if factors is not None:
        if factors.count > MOST_FACTORS:
            raise _refused(gguf, factors, WRONG_SHAPE)
        numbers = gguf.numbers(factors).tolist()
        return {
            "rope_scaling": {
                "rope_type": "longrope",
                "short_factor": numbers,
                "long_factor": numbers,
                "attention_factor": 1.0,
                "original_max_position_embeddings": gguf.metadata.get(f"{kind}.context_length"),
            }
        }
    if method in (None, "none"):
        return {}
    if method not in SCALINGS:
        raise value_error(
            "{name} scales its rotary positions by {method}, which is not read from GGUF here. Choose the model that "
            "it was made from.",
            name=quoted(gguf.path.name),
            method=quoted(method),
        )
    scaling = {"rope_type": method, "factor": gguf.metadata.get(f"{prefix}.factor")}
    return {"rope_scaling": scaling | ({"original_max_position_embeddings": original} if original else {})}


@dataclass(frozen=True, eq=False)
class ConvertedModel:
    """The model in a GGUF file, in the form of transformers."""

    config: dict[str, Any]  # as config.json has it
    tokenizer: GgufTokenizer
    size: int  # bytes of the weights
    weights: Iterator[tuple[str, NDArray[np.float32]]]  # by name; dequantized one at a time


def convert(path: Path, progress: Progress = no_progress) -> ConvertedModel:
    """Returns the model in a GGUF file; calls `progress` with the bytes done and in total while its weights are taken.

    Raises ValueError if it cannot be read or built, or does not fit into memory, and so does taking its weights.
    """
    gguf = read_gguf(path)
    name, config = path.name, config_json(gguf)
    count = sum(tensor.count for tensor in gguf.tensors)
    size = count * np.dtype(np.float32).itemsize
    check_config(name, config)
    check_size(name, count, size)
    check_trial(name, config, len(gguf.tensors))
    model = build(name, config, len(gguf.tensors))[-1]
    return ConvertedModel(config, gguf_tokenizer(path), size, _weights(gguf, config, model, progress))


def _weights(
    gguf: GgufFile, config: dict[str, Any], model: Any, progress: Progress
) -> Iterator[tuple[str, NDArray[np.float32]]]:
    kind, shapes = gguf.metadata["general.architecture"], {name: one.shape for name, one in model.state_dict().items()}
    processor = TENSOR_PROCESSORS.get(kind, TensorProcessor)(config=config)
    names = weight_names(model, processor, kind)
    merged: dict[str, dict[str, Any]] = {"tensors": {}}  # what a processor makes of several
    done, size = 0, sum(tensor.size for tensor in gguf.tensors)
    for tensor in gguf.tensors:
        if tensor.name != ROPE_FACTORS:
            numbers = gguf.numbers(tensor)
            if not np.isfinite(numbers).all():
                raise _refused(gguf, tensor, N_("it has numbers that are not finite"))
            with as_value_error(_("{tensor} cannot be read", tensor=quoted(tensor.name))):
                result = processor.process(
                    weights=numbers, name=tensor.name, tensor_key_mapping=names, parsed_parameters=merged
                )
            if result.name in names:
                if result.weights.shape != shapes.get(names[result.name]):
                    raise _refused(gguf, tensor, WRONG_SHAPE)
                yield names[result.name], np.ascontiguousarray(result.weights)
            elif result.name is not None:
                raise _refused(gguf, tensor, N_("transformers has no place for it"))
        done += tensor.size
        progress(done, size)
    for name, numbers in merged["tensors"].items():
        yield name, numbers.numpy()


def _refused(gguf: GgufFile, tensor: GgufTensor, reason: str) -> ValueError:
    return value_error(
        "{name} has the tensor {tensor}, but {reason}. Choose the model that it was made from.",
        name=quoted(gguf.path.name),
        tensor=quoted(tensor.name),
        reason=_(reason),
    )


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
    (folder / "tokenizer.json").write_text(model.tokenizer.tokenizer, encoding="utf-8")
    for name, content in (("config", model.config), ("tokenizer_config", model.tokenizer.config)):
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
