"""Loading of models from folders: no file is trusted, no code is run, and the size is known before loading.

`inspect_folder` reads config.json and the headers of the weights with limits, and raises ValueError for what cannot or
should not be loaded; `ModelFolder.load` reads the weights. `model_cache` calls both once.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
import transformers

from attnviz.base.bounded_json import CONFIG_BYTES, read_object
from attnviz.base.formatting import byte_size, grouped, quoted
from attnviz.base.language import N_, _, later, value_error
from attnviz.base.settings import model_bytes
from attnviz.models.config import CLASSIFIERS, OUTPUTS, build, check_config, safe_config, too_large
from attnviz.models.config_trial import check_trial
from attnviz.models.folder import VOCABULARY, WeightSizes, check_tokenizer, open_folder, pooling, weight_sizes
from attnviz.models.model import LoadedModel
from attnviz.models.number_types import HALF_TYPES, computing_type, quantized_bits, type_name
from attnviz.models.readable_errors import as_value_error
from attnviz.models.text_inputs import MOST_TOKENS
from attnviz.models.tokenizer_process import TokenizerProcess

SAFE_OPTIONS = {"local_files_only": True, "trust_remote_code": False}
# Comes after all attention, or is nothing but zeros; many models are published without it.
OPTIONAL_WEIGHTS = re.compile(r"(^|\.)(pooler\..*|final_logits_bias)$")
POOLER = re.compile(r"(^|\.)pooler\.")  # which gives a classifier its input
# The bytes that a model may take: a fixed number, and a number for each byte in the files, which hold tied weights only
# once, and computed tables not at all.
MOST_BYTES = 64 << 20, 4


def check_size(name: str, parameters: int, size: int) -> None:
    """Raises ValueError for a model that does not fit into memory."""
    if size > model_bytes():
        raise value_error(
            "{name} has {parameters} parameters, which need {size} of memory; at most "
            "{model_bytes} may be used here. Choose a smaller model, or start attnviz with a "
            "larger ATTNVIZ_MODEL_MB.",
            name=quoted(name),
            parameters=grouped(parameters),
            size=byte_size(size),
            model_bytes=byte_size(model_bytes()),
        )


@dataclass(frozen=True, eq=False)
class ModelFolder:
    """A folder with a model that can be loaded: its size, and how to build it."""

    path: Path | None  # None if its weights and its tokenizer are in memory
    name: str
    parameters: int
    size: int  # bytes in memory
    dtype: torch.dtype  # in which it is computed
    config_json: dict[str, Any] = field(repr=False)  # without the keys that are unsafe
    config: Any = field(repr=False)
    implementation: str  # of attention, in plain forwards: "sdpa", or "eager" where the model has no other
    classes: tuple[Any, ...] = field(repr=False)  # to be tried in this order: with a head, without one
    outputs: str  # what the first of them gives: "next token" · "labels" · "token labels" · "sentence vector" · ""
    pooling: str
    strict: bool  # weights that find no place are refused too
    notes: tuple[Callable[[], str], ...] = ()  # sentences about it, in the language of who reads them
    device_map: str | None = None  # of accelerate: which devices hold the weights
    most_tokens: int = MOST_TOKENS  # of a text
    trusted: bool = False  # whether its tokenizer may run in this process
    weights: dict[str, torch.Tensor] | None = field(default=None, repr=False)  # that are in memory
    tokenizer: Any = field(default=None, repr=False)

    def load(self) -> LoadedModel:
        """Loads the model. Raises ValueError if weights are missing or damaged."""
        tokenizer = self._start_tokenizer()  # which reads its files while the weights are read
        for auto in self.classes:
            model, missing = self._weights(auto)
            if not missing:
                break
            whole = len(model.state_dict())
            del model  # before there are two
        else:
            raise value_error(
                "{count} of the {whole} weights of {name} are missing from its files or have "
                "another shape, such as {examples}. Random numbers in their place would give a "
                "wrong picture. Save or download the model again, whole.",
                count=len(missing),
                whole=whole,
                name=quoted(self.name),
                examples=", ".join(map(quoted, missing[:3])),
            )
        if isinstance(tokenizer, TokenizerProcess):
            try:
                tokenizer.wait()
            except ValueError:
                tokenizer = None  # the model says so when it is given a text
        return LoadedModel(
            model,
            tokenizer,
            self.name,
            outputs=self.outputs if auto is self.classes[0] else "",
            pooling=self.pooling,
            notes=self.notes,
            folder=self.path,
            most_tokens=self.most_tokens,
        )

    def _weights(self, auto: Any) -> tuple[Any, list[str]]:
        source: dict[str, Any] = {"use_safetensors": True, "weights_only": True}
        if self.weights is not None:
            auto, source = auto._model_mapping[type(self.config)], {"state_dict": self.weights}
        with as_value_error(_("The weights of {name} cannot be read", name=quoted(self.name))):
            model, info = auto.from_pretrained(
                self.path,
                config=self.config,
                dtype=self.dtype,
                attn_implementation=self.implementation,
                ignore_mismatched_sizes=True,  # they are counted instead, below
                output_loading_info=True,
                **source,
                **({"device_map": self.device_map} if self.device_map else {}),
                **SAFE_OPTIONS,
            )
        missing = {key for key in info["missing_keys"] if not OPTIONAL_WEIGHTS.search(key)}
        if auto in CLASSIFIERS:
            missing |= {key for key in info["missing_keys"] if POOLER.search(key)}
        missing |= {key for key, *_ in info["mismatched_keys"]}
        if self.strict:  # what belongs to a part of the model, and has no place there
            modules = {name for name, _ in (*model.named_children(), *model.base_model.named_children())}
            missing |= {key for key in info["unexpected_keys"] if modules & set(key.split(".")[:2])}
        model.config.use_cache = False
        bits = quantized_bits(self.config_json.get("gguf_type", ""))
        # By which a capture names it, in traces too, which are not translated.
        model.config.name_or_path = f"{self.name} ({bits}-bit, from a GGUF file)" if bits else self.name
        return model.eval(), sorted(missing)

    def _start_tokenizer(self) -> Any:
        if self.path is None:
            return self.tokenizer
        if not any(entry.name.startswith(VOCABULARY) or entry.suffix == ".model" for entry in self.path.iterdir()):
            return None
        if self.trusted:
            return transformers.AutoTokenizer.from_pretrained(self.path, config=self.config, **SAFE_OPTIONS)
        return TokenizerProcess(self.name, self.path, self.config_json)


def _memory(meta: Any) -> int:
    """Returns the bytes of a model's tensors, some of which transformers keeps in float32."""
    kept = {*(meta._keep_in_fp32_modules or ()), *(meta._keep_in_fp32_modules_strict or ())}
    tensors = [*meta.named_parameters(), *meta.named_buffers()]
    return sum(
        max(tensor.nbytes, 4 * tensor.numel() * (not kept.isdisjoint(name.split(".")))) for name, tensor in tensors
    )


def inspect_folder(folder: str | Path, name: str = "") -> ModelFolder:
    """Returns what a folder holds, without reading its weights.

    Raises ValueError if it is not a model or cannot be read: pickled weights only, code of its own, adapters, quantized
    weights, absurd numbers, or more memory than ATTNVIZ_MODEL_MB.
    """
    path = open_folder(folder)
    name = name or path.name
    config_json = read_object(path / "config.json", CONFIG_BYTES)
    check_config(name, config_json)
    check_tokenizer(path)
    return _inspect(name, config_json, weight_sizes(path, name), path)


def inspect_weights(name: str, config: dict[str, Any], weights: dict[str, torch.Tensor], tokenizer: Any) -> ModelFolder:
    """Returns a model whose weights, of type float32, and whose tokenizer are in memory. Raises ValueError as
    `inspect_folder` does."""
    check_config(name, config)
    sizes = WeightSizes({"F32": sum(tensor.numel() for tensor in weights.values())}, len(weights))
    return replace(_inspect(name, config, sizes), weights=weights, tokenizer=tokenizer)


def _inspect(name: str, config_json: dict[str, Any], sizes: WeightSizes, path: Path | None = None) -> ModelFolder:
    dtype = computing_type(sizes.common_type)
    parameters_in_files, size_in_files = sum(sizes.parameters.values()), sizes.memory(dtype.itemsize)
    check_size(name, parameters_in_files, size_in_files)
    check_trial(name, config_json, sizes.tensors)
    config, implementation, classes, meta = build(name, config_json, sizes.tensors, dtype)
    if meta.main_input_name not in ("input_ids", "pixel_values"):
        raise value_error(
            "{name} reads neither text nor images: its input is called {main_input_name}. In a "
            "notebook, attnviz.capture accepts a batch of any kind.",
            name=quoted(name),
            main_input_name=quoted(meta.main_input_name),
        )
    parameters = max(parameters_in_files, sum(parameter.numel() for parameter in meta.parameters()))
    size = max(size_in_files, _memory(meta))
    check_size(name, parameters, size)
    if size > MOST_BYTES[0] + MOST_BYTES[1] * size_in_files:
        raise too_large(name)
    pooling_mode = pooling(path) if path else ""
    strict = "auto_map" in config_json
    notes: tuple[Callable[[], str], ...] = ()
    if strict:
        notes = (
            later(
                N_("{name} comes with code of its own, which was not run: {kind} of transformers is used instead."),
                name=name,
                kind=type(meta).__name__,
            ),
        )
    if bits := quantized_bits(gguf_type := config_json.get("gguf_type", "")):
        notes += (
            later(
                N_(
                    "The weights of {name} are {bits}-bit ({gguf_type}), from a GGUF file: its numbers are not those "
                    "of the original model."
                ),
                name=name,
                bits=bits,
                gguf_type=gguf_type,
            ),
        )
    if dtype is torch.float32 and (stored := HALF_TYPES.get(sizes.common_type)):
        notes += (
            later(
                N_("The weights of {name} are {type_name}, in which torch does not compute here, so float32 is used."),
                name=name,
                type_name=type_name(stored),
            ),
        )
    outputs = OUTPUTS.get(classes[0], "sentence vector" if pooling_mode else "")
    return ModelFolder(
        path,
        name,
        parameters,
        size,
        dtype,
        safe_config(config_json),
        config,
        implementation,
        classes,
        outputs,
        pooling_mode,
        strict,
        notes,
    )
